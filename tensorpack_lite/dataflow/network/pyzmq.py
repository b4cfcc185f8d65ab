"""Import of ZMQ, which only data of other machines needs, by the first call that needs it."""

from __future__ import annotations

from typing import Any

from ...utils.optional import load_optional

__all__ = ["load_zmq"]


def load_zmq() -> Any:
    """
    Import ZMQ.

    Returns:
        The module `zmq`, with its `utils.monitor` and `utils.z85`.

    Raises:
        ImportError: it is not installed; with the command that installs it.
    """
    load_optional("zmq.utils.monitor", "Data of other machines")  # `import zmq` leaves out these two
    load_optional("zmq.utils.z85", "Data of other machines")
    return load_optional("zmq", "Data of other machines")
