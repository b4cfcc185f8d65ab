"""Import of ZMQ at its first use. Only data from other machines needs it."""

from __future__ import annotations

from types import ModuleType

from ...utils.optional import load_optional


def load_zmq() -> ModuleType:
    """
    Import ZMQ.

    Returns:
        The module `zmq`, with its `utils.monitor` and `utils.z85`.

    Raises:
        ImportError: pyzmq is not installed; the message has the command that installs it.
    """
    load_optional("zmq.utils.monitor", "Data from other machines")  # `import zmq` does not import these two
    load_optional("zmq.utils.z85", "Data from other machines")
    return load_optional("zmq", "Data from other machines")
