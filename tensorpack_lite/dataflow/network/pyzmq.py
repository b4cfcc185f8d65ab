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
    for module in ("zmq.utils.monitor", "zmq.utils.z85"):  # which `import zmq` leaves out
        load_optional(module, "Data of other machines")
    return load_optional("zmq", "Data of other machines")
