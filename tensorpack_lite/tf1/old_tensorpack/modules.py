"""The modules of tensorpack under the names that they had."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from importlib.util import find_spec

from ...utils.old_names_table import Old
from ..unsupported import unsupported_spec
from .star_table import MODULES


def find_current(name: str) -> ModuleSpec | None:
    """
    Find the module of this library for a module of tensorpack. The importer of `tensorpack-lite run` calls
    this function.

    Args:
        name: the full name in tensorpack, e.g. "tensorpack.utils.sessinit".

    Returns:
        The spec of the module; that of an `UnsupportedModule` called `name` if tensorpack had the module, but nothing
        provides it; or None if there was no such module.
    """
    place = name.partition(".")[2]
    old = MODULES.get(place, Old("", place))
    removed = MODULES.get(place.partition(".")[0], old) if "." in place else old
    for found in (old, removed):
        if found.advice and not found.target:
            return unsupported_spec(name, found.sentence(name))
    return find_spec(".".join(filter(None, ["tensorpack_lite", old.target])))
