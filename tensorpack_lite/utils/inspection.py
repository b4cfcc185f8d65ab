"""
Inspection of users' objects without running their code.

`getattr`, `isinstance`, `len` and `repr` may call methods of a user's class, which may compute, block or raise. These functions
read only what Python itself keeps: the `__dict__` of an instance, the MRO of a class, and the code of a function. Where a method of
a user's class must be called, `call_within` limits the time.
"""

from __future__ import annotations

import inspect
import itertools
import os
import re
import sys
import threading
import types
from typing import Any, Callable, TypeVar

_T = TypeVar("_T")

_LIBRARY = __name__.split(".")[0]
_FOLDERS = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(os.__file__)]
_INSTALLED = re.compile(
    "|".join([r"[\\/](site|dist)-packages[\\/]", *(rf"^{re.escape(folder)}[\\/]" for folder in _FOLDERS)])
)
_MAX_ATTRIBUTES = 256
_MAX_WRAPPERS = 16
_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)  # descriptors of the interpreter
_TYPE = vars(type)
_MODULE_DICT = vars(types.ModuleType)["__dict__"]


def is_installed(path: str) -> bool:
    """Return whether a file belongs to an installed package, to this library or to the standard library."""
    return _INSTALLED.search(path) is not None


def origin(module: object) -> str:
    """
    Return the author of a module.

    Args:
        module: its name, from the `__module__` of a class or function.

    Returns:
        "library" for this library, "other" for built-in modules and installed packages, "user" for all others.
    """
    if not isinstance(module, str) or module == "__main__":
        return "user"
    root = module.split(".")[0]
    if root == _LIBRARY:
        return "library"
    found = sys.modules.get(module, sys.modules.get(root))
    if not issubclass(type(found), types.ModuleType):
        return "user"
    path = _MODULE_DICT.__get__(found).get("__file__")
    is_other = root in sys.builtin_module_names if path is None else type(path) is str and is_installed(path)
    return "other" if is_other else "user"


def module_of(kind: type) -> str:
    """Return the name of the module of a class; "" if it is not text."""
    module = _TYPE["__module__"].__get__(kind)
    return module if type(module) is str else ""


def root_of(kind: type) -> str:
    """Return the name of the package of a class."""
    return module_of(kind).split(".")[0]


def class_name(kind: type) -> str:
    """Return the qualified name of a class, with its module unless it is built-in or of this library."""
    name = str(_TYPE["__qualname__"].__get__(kind))
    return name if root_of(kind) in ("", _LIBRARY, "builtins") else f"{module_of(kind)}.{name}"


def mro(kind: type) -> tuple[type, ...]:
    """Return the classes from which a class derives, itself included."""
    found: tuple[type, ...] = _TYPE["__mro__"].__get__(kind)
    return found


def class_attribute(kind: type, name: str) -> Any:
    """Return an attribute of a class or its bases without binding it; None if there is none."""
    for base in mro(kind):
        attributes = _TYPE["__dict__"].__get__(base)
        if name in attributes:
            return attributes[name]
    return None


def instance_attributes(value: object) -> dict[str, Any]:
    """Return a copy of the `__dict__` of an object, at most 256 attributes; {} if it has none."""
    descriptor = class_attribute(type(value), "__dict__")
    if not issubclass(type(descriptor), _SLOTS):
        return {}
    found = descriptor.__get__(value)
    items = itertools.islice(dict.items(found), _MAX_ATTRIBUTES) if issubclass(type(found), dict) else ()
    return {name: item for name, item in items if type(name) is str}


def static_attribute(value: object, name: str, default: Any = None) -> Any:
    """
    Return an attribute of an object, or the function, property or value in its class, without calling anything.

    Reading the `__dict__` of an object, as `inspect.getattr_static` does, makes all its attributes slower from then on: in Python
    3.11 and 3.12, `self.x += 1` takes three times as long. So it is read only where it cannot be avoided.
    """
    kind = type(value)
    in_class = class_attribute(kind, name)
    if issubclass(kind, (type, types.ModuleType)) or not _is_inert(in_class):
        return inspect.getattr_static(value, name, default)
    try:
        found = object.__getattribute__(value, name)
    except AttributeError:
        return default
    is_bound = type(found) is types.MethodType and found.__self__ is value and found.__func__ is in_class
    return in_class if is_bound else found


def _is_inert(in_class: object) -> bool:
    """Return whether looking up an attribute of an object that has this value in its class calls nothing of users' code."""
    return type(in_class) is types.FunctionType or class_attribute(type(in_class), "__get__") is None


def parameter_names(kind: type) -> list[str]:
    """Return the names of the parameters of a class's constructor, without `self`; [] if they are not known."""
    function = class_attribute(kind, "__init__")
    for _ in range(_MAX_WRAPPERS):
        inner = instance_attributes(function).get("__wrapped__")
        if type(inner) is not types.FunctionType:
            break
        function = inner
    if type(function) is not types.FunctionType:
        return []
    code = function.__code__
    num = code.co_argcount + code.co_kwonlyargcount
    for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS):
        num += bool(code.co_flags & flag)
    return list(code.co_varnames[1:num])


def call_within(seconds: float, function: Callable[[], _T]) -> _T | None:
    """
    Call a function of the user that may compute for long, block or raise, and wait for its result at most a while.

    Args:
        seconds: how long to wait. A function that takes longer continues in a daemon thread.
        function: a function without arguments.

    Returns:
        Its result; None if it takes longer or raises an Exception.
    """
    results: list[_T] = []

    def call() -> None:
        try:
            results.append(function())
        except Exception:  # noqa: BLE001 (users' code may raise anything; the caller continues without the result)
            results.clear()

    thread = threading.Thread(target=call, name="call_within", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    return next(iter(results), None)
