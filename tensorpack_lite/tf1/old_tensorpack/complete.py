"""The completion of a module of tensorpack_lite for old scripts."""

from __future__ import annotations

import importlib
from types import ModuleType

from .arguments import accept_arguments
from .interfaces import choose_interface
from .names import add_names
from .table import ARGUMENTS, BEHAVIOR, INTERFACES


def complete(module: ModuleType) -> None:
    """Add to a module what `table.py` has for it. It has been executed, and no other module has imported its names yet."""
    place = module.__name__.partition(".")[2]
    add_names(module)
    for name, arguments in ARGUMENTS.get(place, {}).items():
        accept_arguments(vars(module)[name], arguments)
    if place in INTERFACES:
        choose_interface(vars(module)[INTERFACES[place]])
    if place in BEHAVIOR:
        behavior = importlib.import_module(f"{__package__}.behavior")
        getattr(behavior, BEHAVIOR[place])(module)
