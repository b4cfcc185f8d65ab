"""Errors about misspelt arguments, with the name that was probably meant."""

from __future__ import annotations

import difflib
import inspect
import re
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping

__all__ = ["explain_argument"]

_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")


@contextmanager
def explain_argument(func: Callable[..., Any], given: Mapping[str, Any], left_out: int = 0) -> Iterator[None]:
    """
    Name the argument that was probably meant, if a call of a function fails because it has no argument of a given name.

    Args:
        func: the function that is called inside.
        given: the keyword arguments of the call.
        left_out: number of parameters at the beginning that cannot be given by name, such as `self`.

    Raises:
        TypeError: the function has no argument of a given name. Other errors are not changed.

    Example:
        >>> def save(path, max_to_keep=10): ...
        >>> with explain_argument(save, {"max_to_keeep": 3}):
        ...     save("model", max_to_keeep=3)
        Traceback (most recent call last):
        TypeError: save: there is no argument 'max_to_keeep'. Did you mean 'max_to_keep'?
    """
    try:
        yield
    except TypeError as error:
        found = _UNKNOWN.search(str(error))
        if found is None or found.group(1) not in given:
            raise
        parameters = inspect.signature(func).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        if takes_any or found.group(1) in parameters:
            raise
        names = list(parameters)[left_out:]
        who = func.__qualname__.rpartition("<locals>.")[2].replace(".__init__", "")
        raise TypeError(f"{who}: {_describe(found.group(1), names)}") from None


def _describe(name: str, names: list[str]) -> str:
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    cure = f"Did you mean '{nearest[0]}'?" if nearest else f"Its arguments are: {', '.join(names)}."
    return f"there is no argument '{name}'. {cure}"
