"""The `repr` of augmentors and transforms: the call that builds them."""

from __future__ import annotations

import inspect
from typing import Any, Iterator

from ...utils.argtools import log_once


class Described:
    """
    Base class of objects whose repr is the call that builds them, from attributes named like the constructor's arguments.

    Arguments that have their default value are omitted. If an argument has no attribute, or if the constructor takes
    `*args` or `**kwargs`, the repr is Python's default, with one warning.
    """

    def _init(self, params: dict[str, Any] | None = None) -> None:
        """Store the constructor's arguments as attributes: `self._init(locals())`."""
        for name, value in (params or {}).items():
            if name != "self" and not name.startswith("_"):
                self.__dict__[name] = value

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            arguments = ", ".join(f"{key}={value!r}" for key, value in _arguments(self))
        except AttributeError as error:
            message = f"{name}: cannot build a repr: {error}. Set it, or call self._init(locals())."
            log_once(message, "warning")
            return object.__repr__(self)
        return f"imgaug.{name}({arguments})"


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
