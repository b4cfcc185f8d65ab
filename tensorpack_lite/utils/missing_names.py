"""Errors for names that this library does not have. For names of older versions of tensorpack, they name the replacement."""

from __future__ import annotations

import functools
from typing import Callable, NoReturn

from .old_names_table import find_old_name


def explain_missing_names(module: str) -> Callable[[str], NoReturn]:
    """
    Return a function for the `__getattr__` of a module (PEP 562), which raises `missing_name`.

    Args:
        module: the full name of the module, e.g. "tensorpack_lite.tfutils.common".
    """
    return functools.partial(_fail, module)


def _fail(module: str, name: str) -> NoReturn:
    raise missing_name(module, name)


def missing_name(module: str, name: str) -> Exception:
    """
    Return the error for a name that a module does not have.

    Args:
        module, name: the full name of the module, and the name in it.

    Returns:
        An ImportError that names the replacement, if tensorpack had the name. (An AttributeError would lose its message in
        `from module import name`.) Otherwise an AttributeError.
    """
    old = find_old_name(".".join([*module.split(".")[1:], name]))
    if old is not None:
        return ImportError(old.sentence(f"{module}.{name}"), name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}. dir({module}) lists the names it has.")
