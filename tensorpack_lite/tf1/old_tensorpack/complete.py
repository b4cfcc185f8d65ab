"""The completion of a module of tensorpack_lite for old scripts."""

from __future__ import annotations

from types import ModuleType

from .arguments import accept_arguments
from .behavior import BEHAVIOR
from .interfaces import choose_interface
from .names import add_names
from .table import ARGUMENTS, INTERFACES


def complete(module: ModuleType) -> None:
    """Add to a module what the tables have for it. It has been executed, and no other module has imported its names yet."""
    place = module.__name__.partition(".")[2]
    add_names(module)
    for name, arguments in ARGUMENTS.get(place, {}).items():
        accept_arguments(vars(module)[name], arguments)
    if place in INTERFACES:
        choose_interface(vars(module)[INTERFACES[place]])
    if place in BEHAVIOR:
        BEHAVIOR[place](module)
