"""The completion of a module of tensorpack_lite for old scripts."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Mapping

from ..startup.sitecustomize import replacement
from .behavior import BEHAVIOR
from .names import add_names, load
from .table import ARGUMENTS, INTERFACES


def complete(module: ModuleType) -> None:
    """Add to a module what the tables have for it. It has been executed, and no other module has imported its names yet."""
    place = module.__name__.partition(".")[2]
    add_names(module)
    for name, arguments in ARGUMENTS.get(place, {}).items():
        _accept_arguments(vars(module)[name], arguments)
    if place in INTERFACES:
        _choose_interface(vars(module)[INTERFACES[place]])
    if place in BEHAVIOR:
        BEHAVIOR[place](module)


def _accept_arguments(cls: Any, names: Mapping[str, str]) -> None:
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


def _choose_interface(cls: Any) -> None:
    """
    Let `trainv1/choose.py` select the class of each object of a class or of a class that a script derives from it.

    The arguments matter only for trainers: they choose the generation.
    """

    def create(called: Any, *args: object, **kwargs: object) -> Any:
        old_class = load("trainv1.choose:old_class")
        return super(cls, called).__new__(old_class(called, [*args, *kwargs.values()]))

    replacement.add(cls, "__new__", staticmethod(create))
