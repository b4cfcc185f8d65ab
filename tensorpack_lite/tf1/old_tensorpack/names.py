"""Names that modules had in older versions of tensorpack."""

from __future__ import annotations

import importlib
import operator
from functools import lru_cache
from types import ModuleType
from typing import Any, Iterator, List, Sequence

from ...utils.missing_names import explain_missing_names
from ...utils.old_names_table import OLD_MODULES, OLD_NAMES, Old
from ..removed.said import caller
from ..startup.sitecustomize import calling_frame, replacement
from ..unsupported import Unsupported
from .star_table import star_names
from .table import STAR_NAMES


def add_names(module: ModuleType) -> None:
    """Give a module its old names. Star imports bind them, too; a stand-in says more than a NameError."""
    place = module.__name__.partition(".")[2]
    names = _names_by_module().get(place, {})
    stars = [name for name in names if f"{place}.{name}".lstrip(".") in OLD_NAMES and name[0] != "_"]
    stars += [*star_names().get(place, []), *STAR_NAMES.get(place, [])]
    if names or "__getattr__" in vars(module):
        replacement.add(module, "__getattr__", _Finder(module, names, stars).find)
    if stars and place:  # the facade computes its names when it is asked
        public = [name for name in vars(module) if name[0] != "_"]
        replacement.add(module, "__all__", _StarNames(vars(module).get("__all__", public), stars))


@lru_cache(maxsize=None)
def _names_by_module() -> dict[str, dict[str, Old]]:
    """Return the tables of old names as {module: {name: what became of it}}."""
    found: dict[str, dict[str, Old]] = {}
    for path, old in {**OLD_NAMES, **OLD_MODULES}.items():
        module, _, name = path.rpartition(".")
        found.setdefault(module, {})[name] = old
    for module, names in star_names().items():
        found.setdefault(module, {}).update(names)
    return found


class _StarNames(List[str]):
    """
    Names in the `__all__` of a module.

    A star import binds an old name only if the importing file does not have the name already, and never in a file of
    this library.

    Args:
        names: the current names.
        old: the old names.
    """

    def __init__(self, names: Sequence[str], old: Sequence[str]) -> None:
        super().__init__(dict.fromkeys([*names, *old]))
        self._old = frozenset(old) - {*names}

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names; for the import system, which would load all of them, only over the current ones."""
        frame = calling_frame()
        is_import = frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")
        return (name for name in super().copy() if not (is_import and name in self._old))

    def __getitem__(self, index: Any) -> Any:
        """
        Return a name. In place of an old name that the importing file must not get, return the first name, which the
        file gets anyway.
        """
        name = super().__getitem__(index)
        if isinstance(index, int) and name in self._old and not self._may_bind(name):
            return super().__getitem__(0)
        return name

    @staticmethod
    def _may_bind(name: str) -> bool:
        frame = caller()
        if frame is None:
            return True
        importer = frame.f_globals.get("__name__", "")
        return name not in frame.f_locals and importer.partition(".")[0] != "tensorpack_lite"


class _Finder:
    """
    The `__getattr__` of a module, with its old names.

    Args:
        module: the module.
        names: its old names.
        stars: those that star imports bind, for the facade, which computes `__all__`.
    """

    def __init__(self, module: ModuleType, names: dict[str, Old], stars: list[str]) -> None:
        self._module = module.__name__
        self._names = names
        self._stars = stars
        self._plain: Any = vars(module).get("__getattr__", explain_missing_names(module.__name__))

    def find(self, name: str) -> Any:
        """
        Return the object that the module had under a name; a stand-in, whose use raises an error, if nothing provides it.

        Raises:
            AttributeError: tensorpack never had this name.
        """
        old = self._names.get(name)
        if old is not None:
            return load(old.target) if old.target else Unsupported(old.sentence(f"{self._module}.{name}"))
        if name == "__all__" and self._module == "tensorpack_lite":
            # packages of which it lists the names have their old ones, too
            return _StarNames([one for one in self._plain(name) if one not in self._stars], self._stars)
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
    return operator.attrgetter(attribute)(found) if attribute else found
