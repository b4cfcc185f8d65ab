"""How augmentors and transforms write themselves: as the call that would build them."""

from __future__ import annotations

import inspect
from typing import Any, Iterator

from ...utils.argtools import log_once

__all__ = ["describe", "public_arguments"]


def describe(instance: object) -> str:
    """
    Write an object as the call that builds it, from its attributes of the same names as the constructor's arguments.

    Args:
        instance: its constructor takes no `*args` or `**kwargs`.

    Returns:
        E.g. "imgaug.Resize(shape=(30, 30))", without arguments that have their default; Python's own repr, and one
        warning, when an argument has no attribute.
    """
    name = type(instance).__name__
    try:
        arguments = ", ".join(f"{key}={value!r}" for key, value in _arguments(instance))
    except AttributeError as error:
        log_once(f"{name}: has no repr of its own: {error}. Set it, or call self._init(locals()).", "warning")
        return object.__repr__(instance)
    return f"imgaug.{name}({arguments})"


def public_arguments(params: dict[str, Any]) -> dict[str, Any]:
    """
    Take out of a constructor's `locals()` what its caller gave: neither `self` nor names that begin with `_`.

    Args:
        params: names and values.
    """
    return {name: value for name, value in params.items() if name != "self" and not name.startswith("_")}


def _arguments(instance: object) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the arguments that differ from their defaults."""
    parameters = list(inspect.signature(type(instance).__init__).parameters.values())[1:]
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if type(instance).__init__ is object.__init__:
                continue  # no constructor, no arguments
            raise AttributeError(f"its constructor takes {parameter}")
        if parameter.name not in vars(instance):
            raise AttributeError(f"the constructor's argument '{parameter.name}' is not an attribute")
        value = vars(instance)[parameter.name]
        if not _is_default(value, parameter.default):
            yield parameter.name, value


def _is_default(value: Any, default: Any) -> bool:
    simple = isinstance(value, (bool, int, float, str, tuple))
    return value is default or (simple and type(value) is type(default) and value == default)
