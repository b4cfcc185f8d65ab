"""The module `imp`, which Python 3.12 has removed, on top of `importlib`."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    PathFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from types import ModuleType
from typing import IO, Any, Sequence

PY_SOURCE, PY_COMPILED, C_EXTENSION, PKG_DIRECTORY = 1, 2, 3, 5


def get_magic() -> bytes:
    """Return the first bytes of compiled files."""
    return importlib.util.MAGIC_NUMBER


def get_suffixes() -> list[tuple[str, str, int]]:
    """Return the suffix, the mode and the kind of each sort of module."""
    suffixes = [(suffix, "rb", C_EXTENSION) for suffix in EXTENSION_SUFFIXES]
    suffixes += [(suffix, "r", PY_SOURCE) for suffix in SOURCE_SUFFIXES]
    return suffixes + [(suffix, "rb", PY_COMPILED) for suffix in BYTECODE_SUFFIXES]


def lock_held() -> bool:
    """Return False: Python locks each module by itself."""
    return False


def acquire_lock() -> None:
    """Do nothing: Python locks each module by itself."""


def release_lock() -> None:
    """Do nothing: Python locks each module by itself."""


def load_source(name: str, pathname: str, file: IO[Any] | None = None) -> ModuleType:
    """Run a file as a module. A module of this name that exists is run again."""
    return _load(name, pathname, SourceFileLoader(name, pathname))


def load_compiled(name: str, pathname: str, file: IO[Any] | None = None) -> ModuleType:
    """Run a compiled file as a module."""
    return _load(name, pathname, SourcelessFileLoader(name, pathname))


def load_dynamic(name: str, path: str, file: IO[Any] | None = None) -> ModuleType:
    """Load a module in C."""
    return _load(name, path, ExtensionFileLoader(name, path))


def load_package(name: str, path: str) -> ModuleType:
    """Load the package in a folder."""
    return load_source(name, os.path.join(path, "__init__.py"))


def _load(name: str, path: str, loader: Any) -> ModuleType:
    folder = [os.path.dirname(path)] if os.path.basename(path).startswith("__init__.") else None
    spec: Any = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=folder)
    module = sys.modules.get(name)
    if module is None:
        module = importlib.util.module_from_spec(spec)
    is_new = name not in sys.modules
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:  # whatever the module's code raises
        if is_new:
            del sys.modules[name]
        raise
    return sys.modules[name]


def find_module(name: str, path: Sequence[str] | None = None) -> tuple[IO[Any] | None, str, tuple[str, str, int]]:
    """
    Find a module. Returns its open file, its path, and its suffix, mode and kind.

    Raises:
        ImportError: there is no such module in the folders.
    """
    spec = PathFinder.find_spec(name, list(path) if path is not None else None)
    if spec is None or spec.origin is None:
        raise ImportError(f"No module named '{name}'", name=name)
    if spec.submodule_search_locations is not None:
        return None, os.path.dirname(spec.origin), ("", "", PKG_DIRECTORY)
    details = next(one for one in get_suffixes() if spec.origin.endswith(one[0]))
    file: IO[Any] = open(spec.origin, details[1])  # noqa: SIM115 (the caller closes it)
    return file, spec.origin, details


def load_module(name: str, file: IO[Any] | None, filename: str, details: tuple[str, str, int]) -> ModuleType:
    """Load what `find_module` has found."""
    kind = details[2]
    if kind == PKG_DIRECTORY:
        return load_package(name, filename)
    loaders = {PY_SOURCE: load_source, PY_COMPILED: load_compiled, C_EXTENSION: load_dynamic}
    if kind not in loaders:
        raise ImportError(f"Don't know how to import {name} (type code {kind})", name=name)
    return loaders[kind](name, filename)
