"""The one place of this package that changes classes of other libraries and of the script."""

from __future__ import annotations

__all__ = ["set_for_all"]


def set_for_all(owner: type, name: str, value: object) -> None:
    """
    Set an attribute of a class, for the whole process.

    Args:
        owner: the class.
        name: the attribute, which the class may have.
        value: the function or other object.
    """
    setattr(owner, name, value)
