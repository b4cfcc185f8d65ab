"""
The arguments and interfaces of tensorpack 0.2 to 0.10 that scripts of 2016 to 2019 use.

They work if the environment variable `TENSORPACK_LITE_RUN` is 1, which `tensorpack-lite run` sets. Otherwise using one
of them raises an error that names its replacement. There are two kinds of hooks:

- a function or constructor whose arguments were renamed has the decorator `old_arguments`;
- a class that was used in another way before 2018 inherits from `HasOldInterface`.
"""

from __future__ import annotations

import functools
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Mapping, TypeVar

from .arguments import explain_argument

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = __name__.split(".")[0]


def accepts_old_names() -> bool:
    """Return whether old names work in this process: whether `tensorpack-lite run` started it or its parent."""
    return os.environ.get("TENSORPACK_LITE_RUN") == "1"


def old_arguments(**names: str) -> Callable[[F], F]:
    """
    Decorator for a function or a constructor: accept old names of arguments, and suggest the right name for a misspelt one.

    Args:
        names: old name -> new name, or a sentence of advice for an argument without a successor.

    Raises:
        TypeError: (when called) an old name was passed, and old names are not accepted, the argument has no successor,
            or it was passed under both names; there is no argument of a given name.

    Example:
        >>> @old_arguments(nr_proc="num_proc")
        ... def start(num_proc=1): ...
    """

    def decorate(func: Callable[..., Any]) -> Any:
        who = func.__qualname__.replace(".__init__", "")
        left_out = 1 if func.__name__ == "__init__" else 0  # self

        @functools.wraps(func)
        def wrapper(*args: object, **kwargs: object) -> Any:
            if not names.keys().isdisjoint(kwargs):
                kwargs = _rename(who, kwargs, names)
            with explain_argument(func, kwargs, left_out):
                return func(*args, **kwargs)

        wrapper.old_argument_names = tuple(names)  # type: ignore[attr-defined]  # for argscope
        return wrapper

    return decorate


class HasOldInterface:
    """
    Base class for classes whose objects have the interface of tensorpack before 2018, if old names are accepted.

    `trainv1/choose.py` selects the class of such an object. If old names are not accepted when this module is imported,
    the base class is empty.
    """

    if accepts_old_names() and not TYPE_CHECKING:

        def __new__(cls, *args, **kwargs):
            """Create the object. Only the arguments of trainers matter here: they choose the generation."""
            old_class = _load("trainv1.choose:old_class")
            return super().__new__(old_class(cls, [*args, *kwargs.values()]))


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    found = import_module(f"{_PACKAGE}.{module}")
    return getattr(found, attribute) if attribute else found


def _rename(who: str, arguments: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    renamed = {}
    for name, value in arguments.items():
        new = names.get(name, name)
        if " " in new:
            raise TypeError(f"{who}: has no argument '{name}'. {new}")
        if new != name and new in arguments:
            raise TypeError(f"{who}: '{name}' and '{new}' are the same argument. Pass only '{new}'.")
        if new != name and not accepts_old_names():
            raise TypeError(
                f"{who}: has no argument '{name}', which is an old name. Write {new}=. An old script runs unchanged with "
                "`tensorpack-lite run`."
            )
        renamed[new] = value
    return renamed
