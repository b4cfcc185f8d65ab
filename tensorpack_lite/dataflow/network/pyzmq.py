"""ZMQ, for data of other machines: loaded by the first call that needs it, so that nobody else waits for it."""

from __future__ import annotations

from typing import Any

__all__ = ["load_zmq"]


def load_zmq() -> Any:
    """
    Import ZMQ.

    Returns:
        The module `zmq`.

    Raises:
        ImportError: it is not installed; with the command that installs it.
    """
    try:
        import zmq
        import zmq.utils.monitor
    except ImportError as error:
        raise ImportError("Data of other machines needs ZMQ: pip install pyzmq") from error
    return zmq
