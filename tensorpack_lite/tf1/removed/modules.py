"""
Names that modules have lost, and their return.

A module of `table.py` gets a `__getattr__` when it has been imported. So a name costs nothing until it is used, and names
that the installed version has are not changed. Modules that do not exist any more are found after all others.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Sequence

from .addresses import describe, resolve
from .own_files import is_own_file
from .said import caller, say
from .table import FAMILIES, MODULES, NAMES, PATCHES, PYTHON_2_MODULES, PYTHON_2_NAMES

_WATCHED = {*NAMES, *FAMILIES, *PATCHES, *PYTHON_2_NAMES}
# Prefixes of modules -> what completes all of them
_PREFIXES = {
    "librosa.": ".librosa_names.complete",  # all of its functions have lost positional arguments
    "tensorpack_lite.": PATCHES["tensorpack_lite"],
}
_NOT_WATCHED = (
    "tensorpack_lite.tf1",
    "tensorpack_lite.utils.missing_names",
    "tensorpack_lite.utils.old_names_table",
)  # what completes tensorpack_lite


def install() -> None:
    """Watch the imports of this process from now on, and complete the modules that are imported already."""
    sys.meta_path.insert(0, Completer)  # type: ignore[arg-type]
    sys.meta_path.append(LostModules)  # type: ignore[arg-type]
    built_in = _WATCHED.intersection(sys.builtin_module_names)  # importing them takes no time
    for name in sorted(_WATCHED.intersection(sys.modules) | built_in):
        complete(importlib.import_module(name))


def complete(module: ModuleType) -> None:
    """Give a module its removed names."""
    name = module.__name__
    if name in PATCHES:
        resolve(PATCHES[name])(module)
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            resolve(_PREFIXES[prefix])(module)
    if name in NAMES or name in FAMILIES or name in PYTHON_2_NAMES:
        vars(module)["__getattr__"] = _Finder(module).find


class _Finder:
    """
    The removed names of one module.

    Args:
        module: the module. Its own `__getattr__` takes precedence.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._name = module.__name__
        self._plain: Callable[[str], Any] = vars(module).get("__getattr__", self._fail)

    def find(self, name: str) -> Any:
        """
        Return what a name of the module means.

        Raises:
            AttributeError: the module never had this name.
        """
        address = NAMES.get(self._name, {}).get(name, "")
        if address:
            return self._find_lost(name, address, keep=True)
        address = PYTHON_2_NAMES.get(self._name, {}).get(name, "")
        if address and is_own_file(caller()):
            return self._find_lost(name, address, keep=False)
        if self._name not in FAMILIES or name.startswith("__"):
            return self._plain(name)
        try:
            return self._plain(name)
        except AttributeError:
            address = resolve(FAMILIES[self._name])(name)
        if not address:
            raise self._error(name)
        return self._find_lost(name, address, keep=True)

    def _find_lost(self, name: str, address: str, keep: bool) -> Any:
        try:
            with warnings.catch_warnings():  # such as NumPy's "in the future, np.object will be ..."
                warnings.simplefilter("ignore")
                return self._plain(name)
        except AttributeError as error:
            try:
                value = resolve(address)
            except (AttributeError, ImportError):
                raise error from None
        full_name = f"{self._name}.{name}"
        say(full_name, f"{full_name}, which was removed, is {describe(address)}.")
        if keep:
            vars(self._module)[name] = value
        return value

    def _fail(self, name: str) -> Any:
        raise self._error(name)

    def _error(self, name: str) -> AttributeError:
        error: Any = AttributeError(f"module '{self._name}' has no attribute '{name}'")
        if sys.version_info >= (3, 10):
            error.name, error.obj = name, self._module  # for Python's "Did you mean"
        return error


class Completer:
    """Finder of the modules that are completed when they have been imported. It leaves the search to the other finders."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that has lost names, by the other finders."""
        if (name not in _WATCHED and not name.startswith(tuple(_PREFIXES))) or name.startswith(_NOT_WATCHED):
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)  # a finder of an old package has only `find_module`
            spec = find(name, path, target) if find and finder not in (cls, LostModules) else None
            if spec is not None:
                _watch(spec.loader)
                return spec
        return None


def _watch(loader: Any) -> None:
    """Make a loader complete the module that it executes."""
    plain = getattr(loader, "exec_module", None)
    if isinstance(loader, type) or plain is None:  # modules that are built into Python are complete from the start
        return

    def execute(module: ModuleType) -> None:
        plain(module)
        complete(module)

    vars(loader)["exec_module"] = execute


class LostModules:
    """Finder of modules that have been removed. Those of Python 2 exist only for files of the script."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module that no other finder has found."""
        address = MODULES.get(name)
        if address is None:
            address = PYTHON_2_MODULES.get(name)
            if address is None or not is_own_file(caller()):
                _explain(name)
                return None
        if _is_guarded():
            return None
        try:
            current = resolve(address) if address else None
        except ImportError:
            return None
        say(name, f"the module {name}, which was removed, is {describe(address)}.")
        loader: Any = _LostLoader(current)
        return ModuleSpec(name, loader, is_package=hasattr(current, "__path__") or name in _parents())


def _parents() -> set[str]:
    return {name.rpartition(".")[0] for name in MODULES}


def _explain(name: str) -> None:
    """Raise the error for a module that a package provides."""
    if name == "distutils" and not _is_guarded():
        raise ModuleNotFoundError(
            "No module named 'distutils': it was removed from Python 3.12. Run: pip install setuptools",
            name=name,
        )


def _is_guarded() -> bool:
    """Return whether the script has its own replacement for what it imports."""
    return resolve(".guards.is_guarded")(caller())  # imported when the first module is lost


class _LostLoader:
    """Loader of a module that is another one today, or that consists of names of `table.py`."""

    def __init__(self, current: ModuleType | None) -> None:
        self._current = current

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system create a module."""

    def exec_module(self, module: ModuleType) -> None:
        if self._current is None:
            complete(module)
        else:
            sys.modules[module.__name__] = self._current
