"""Arguments that had another name in older versions of tensorpack."""

from __future__ import annotations

import functools
from typing import Any, Mapping

from ..startup.sitecustomize import replacement


def accept_arguments(cls: Any, names: Mapping[str, str]) -> None:
    """
    Let the constructor of a class accept arguments under their old names.

    Args:
        cls: the class, which stays the same object: scripts derive from it, and pickles name it.
        names: old name -> new name.
    """
    plain, who = cls.__init__, cls.__qualname__

    @functools.wraps(plain)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **_rename(who, kwargs, names))

    replacement.replace(cls, "__init__", construct)


def _rename(who: str, arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    for old, new in names.items():
        if old in arguments and new in arguments:
            raise TypeError(f"{who}: '{old}' and '{new}' are the same argument. Pass only '{new}'.")
    return {names.get(name, name): value for name, value in arguments.items()}
