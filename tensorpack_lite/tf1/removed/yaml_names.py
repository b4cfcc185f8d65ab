"""`yaml.load` without a Loader, as before PyYAML 6."""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any, Callable

from .said import say


def complete(module: ModuleType) -> None:
    """
    Let `load` and `load_all` be called without a Loader, which is then FullLoader, as in PyYAML 5.

    FullLoader creates no objects of Python other than those that YAML describes.
    """
    for name in ("load", "load_all"):
        plain = vars(module)[name]
        if inspect.signature(plain).parameters["Loader"].default is inspect.Parameter.empty:
            vars(module)[name] = _with_loader(name, plain, module)


def _with_loader(name: str, plain: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
    def load(stream: Any, Loader: Any = None) -> Any:
        if Loader is None:
            say(f"yaml.{name}", f"yaml.{name} without a Loader, which was removed, uses yaml.FullLoader.")
        return plain(stream, Loader or module.FullLoader)

    return functools.wraps(plain)(load)
