"""The `repr` of augmentors and transforms: the call that builds them."""

from __future__ import annotations

import inspect
from typing import Any, Iterator

from ...utils.argtools import log_once

__all__ = ["describe", "public_arguments"]


def describe(instance: object) -> str:
    """
    Return the call that builds an object, from its attributes that are named like the constructor's arguments.

    Args:
        instance: an object whose constructor takes neither `*args` nor `**kwargs`.

    Returns:
        E.g. "imgaug.Resize(shape=(30, 30))", without arguments that have their default value. If an argument has no
        attribute, Python's default repr, with one warning.
    """
    name = type(instance).__name__
    try:
        arguments = ", ".join(f"{key}={value!r}" for key, value in _arguments(instance))
    except AttributeError as error:
        log_once(f"{name}: cannot build a repr: {error}. Set it, or call self._init(locals()).", "warning")
        return object.__repr__(instance)
    return f"imgaug.{name}({arguments})"


def public_arguments(params: dict[str, Any]) -> dict[str, Any]:
    """
    Return the arguments in a constructor's `locals()`: all names except `self` and those that start with `_`.

    Args:
        params: names and values.
    """
    return {name: value for name, value in params.items() if name != "self" and not name.startswith("_")}


def _arguments(instance: object) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the arguments that differ from their defaults."""
    if type(instance).__init__ is object.__init__:
        return
    parameters = list(inspect.signature(type(instance).__init__).parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise AttributeError(f"its constructor takes {parameter}")
        if parameter.name not in vars(instance):
            raise AttributeError(f"the constructor's argument '{parameter.name}' is not an attribute")
        value = vars(instance)[parameter.name]
        if not _is_default(value, parameter.default):
            yield parameter.name, value


def _is_default(value: object, default: object) -> bool:
    simple = isinstance(value, (bool, int, float, str, tuple))
    return value is default or (simple and type(value) is type(default) and value == default)
