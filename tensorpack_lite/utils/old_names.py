"""
The names, arguments and interfaces of tensorpack 0.2 to 0.10 that scripts of 2016 to 2019 use.

They work if the environment variable `TENSORPACK_LITE_RUN` is 1, which `tensorpack-lite run` sets. Otherwise using one
of them raises an error that names its replacement. `old_names_table.py` lists the names. The importer of
`run` asks `find_current` for modules. For the rest, there are three kinds of hooks:

- a module with old names ends with `__getattr__ = old_name_finder(__name__)`, and adds `old_star_names(__name__)` to
  its `__all__`;
- a function or constructor whose arguments were renamed has the decorator `old_arguments`;
- a class that was used in another way before 2018 inherits from `HasOldInterface`.
"""

from __future__ import annotations

import functools
import os
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Callable, Mapping, TypeVar

from .arguments import explain_argument
from .old_names_table import OLD_MODULES, OLD_NAMES, Old
from .unsupported import Unsupported, unsupported_spec

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = __name__.split(".")[0]


def accepts_old_names() -> bool:
    """Return whether old names work in this process: whether `tensorpack-lite run` started it or its parent."""
    return os.environ.get("TENSORPACK_LITE_RUN") == "1"


def find_old_name(module: str, name: str) -> Any:
    """
    Return the object that a module of tensorpack had under a name.

    Args:
        module: the full name of the module, e.g. "tensorpack_lite.tfutils.common".
        name: the name in it.

    Raises:
        AttributeError: tensorpack never had this name.
        ImportError: it was an old name, and old names are not accepted. The message names the replacement. (An
            AttributeError would lose its message in `from module import name`.)

    Note: if old names are accepted and nothing provides this one, the result is a stand-in, whose use raises an error.
    """
    place = ".".join([*module.split(".")[1:], name])
    old = OLD_MODULES.get(place) or OLD_NAMES.get(place)
    if old is None:
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}. dir({module}) lists the names it has."
        )
    if old.target and accepts_old_names():
        return _load(old.target)
    return refuse(module, name, _sentence(f"{module}.{name}", old))


def refuse(module: str, name: str, message: str) -> Unsupported:
    """
    Return a stand-in for a name that nothing provides, if old names are accepted. Using it raises an error.

    Args:
        module, name: the full name of the module, and the name in it.
        message: what is wrong, and what to do.

    Raises:
        ImportError: old names are not accepted.
    """
    if accepts_old_names():
        return Unsupported(message)
    raise ImportError(message, name=module)


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
    old = OLD_MODULES.get(place, Old("", place))
    removed = OLD_MODULES.get(place.partition(".")[0], old) if "." in place else old
    for one in (old, removed):
        if one.advice and not one.target:
            return unsupported_spec(name, _sentence(name, one))
    return find_spec(".".join(filter(None, [_PACKAGE, old.target])))


def old_name_finder(module: str) -> Callable[[str], Any]:
    """Return a function for the `__getattr__` of a module (PEP 562): `find_old_name` for its names."""
    return functools.partial(find_old_name, module)


def old_star_names(module: str) -> list[str]:
    """
    Return the old names that `from module import *` binds: none, unless old names are accepted. Those that nothing
    provides are among them, because a stand-in says more than a NameError.
    """
    if not accepts_old_names():
        return []
    places = [place.rpartition(".") for place in OLD_NAMES]
    package = module.partition(".")[2]
    return [name for one, _, name in places if one == package and not name.startswith("_")]


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


def _sentence(path: str, old: Old) -> str:
    way_out = " An old script runs unchanged with `tensorpack-lite run`." if old.target else ""
    return f"{path}: {old.advice}{way_out}"


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
