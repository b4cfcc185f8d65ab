"""Names that modules had in older versions of tensorpack."""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import ModuleType
from typing import Any, Callable

from ...utils.old_names_table import OLD_MODULES, OLD_NAMES, Old
from ..startup.sitecustomize import replacement
from ..unsupported import Unsupported
from .table import STAR_NAMES


def add_names(module: ModuleType) -> None:
    """Give a module its old names. Star imports bind them, too; a stand-in says more than a NameError."""
    place = module.__name__.partition(".")[2]
    names = _names_by_module().get(place, {})
    stars = [name for name in names if f"{place}.{name}".lstrip(".") in OLD_NAMES and name[0] != "_"]
    stars += STAR_NAMES.get(place, [])
    if "__getattr__" in vars(module):
        replacement.add(module, "__getattr__", _Finder(module, names, stars).find)
    if stars and "__all__" in vars(module):
        replacement.add(module, "__all__", [*vars(module)["__all__"], *stars])


@lru_cache(maxsize=None)
def _names_by_module() -> dict[str, dict[str, Old]]:
    """Return the tables of old names as {module: {name: what became of it}}."""
    found: dict[str, dict[str, Old]] = {}
    for path, old in {**OLD_NAMES, **OLD_MODULES}.items():
        module, _, name = path.rpartition(".")
        found.setdefault(module, {})[name] = old
    return found


class _Finder:
    """
    The `__getattr__` of a module, with its old names.

    Args:
        module: the module, which has a `__getattr__`.
        names: its old names.
        stars: those that star imports bind, for the facade, which computes `__all__`.
    """

    def __init__(self, module: ModuleType, names: dict[str, Old], stars: list[str]) -> None:
        self._module = module.__name__
        self._names = names
        self._stars = stars
        self._plain: Callable[[str], Any] = vars(module)["__getattr__"]

    def find(self, name: str) -> Any:
        """
        Return the object that the module had under a name; a stand-in, whose use raises an error, if nothing provides it.

        Raises:
            AttributeError: tensorpack never had this name.
        """
        old = self._names.get(name)
        if old is not None and old.target:
            return load(old.target)
        if name == "__all__":
            return [*self._plain(name), *self._stars]
        try:
            return self._plain(name)
        except ImportError as error:
            if error.name != self._module:  # another module cannot be imported
                raise
            return Unsupported(str(error))


def load(target: str) -> Any:
    """Return the object at "module:attribute", or a module, below tensorpack_lite."""
    module, _, attribute = target.partition(":")
    found = importlib.import_module(f"tensorpack_lite.{module}")
    return getattr(found, attribute) if attribute else found
