"""ZMQ, for data of other machines: loaded by the first call that needs it, so that nobody else waits for it."""

from __future__ import annotations

from typing import Any

from ...utils.optional import load_optional

__all__ = ["load_zmq"]


def load_zmq() -> Any:
    """
    Import ZMQ.

    Returns:
        The module `zmq`, with its `utils.monitor`.

    Raises:
        ImportError: it is not installed; with the command that installs it.
    """
    load_optional("zmq.utils.monitor", "Data of other machines")  # which `import zmq` leaves out
    return load_optional("zmq", "Data of other machines")
