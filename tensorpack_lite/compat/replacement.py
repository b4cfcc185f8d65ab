"""
The one place that replaces attributes of Python and of other libraries.

Almost all of it is for `tensorpack-lite run`, whose purpose it is. The other features are `cpu_layout.install`,
`enable_argscope_for_module`, an optimizer that several towers share, exports in a rehearsal, and the session before a
StagingInput is filled.

It uses only the standard library, because processes of `tensorpack-lite run` load it at their start, without the package.
"""

from __future__ import annotations

from typing import Any


def replace(owner: Any, name: str, value: Any) -> None:
    """
    Replace an attribute of a module, class or object of another library, for the whole process.

    Args:
        owner: the module, class or object.
        name: an attribute that it has.
        value: the new value.

    Raises:
        AttributeError: there is no such attribute: this version of the library has moved it.
    """
    if not hasattr(owner, name):
        raise AttributeError(f"{getattr(owner, '__name__', owner)} has no attribute '{name}' to replace.")
    add(owner, name, value)


def add(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a module, class or object of another library that may not have it, for the whole process."""
    setattr(owner, name, value)
