"""Errors about misspelt arguments of layers, with the name that was probably meant."""

from __future__ import annotations

import difflib
import inspect
import re
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Sequence

_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'")


@contextmanager
def explain_argument(func: Callable[..., Any], kwargs: Mapping[str, Any], left_out: int = 0) -> Iterator[None]:
    """
    Name the argument that was probably meant, if a call of a function fails because it has no argument of a given name.

    Args:
        func: the function that is called inside.
        kwargs: the keyword arguments of the call.
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
        message = _explain(func, kwargs, left_out, str(error))
        if message is None:
            raise
        raise TypeError(message) from None


def _explain(func: Callable[..., Any], kwargs: Mapping[str, Any], left_out: int, error: str) -> str | None:
    """Return the sentence for a TypeError of the call; None if another call has raised it."""
    found = _UNKNOWN.search(error)
    if found is None or found.group(1) not in kwargs:
        return None
    parameters = inspect.signature(func).parameters
    if found.group(1) in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    ):
        return None
    who = func.__qualname__.rpartition("<locals>.")[2].replace(".__init__", "")
    return f"{who}: {describe_unknown(found.group(1), list(parameters)[left_out:])}"


def describe_unknown(name: str, names: Sequence[str]) -> str:
    """
    Return the sentence about an argument that does not exist.

    Args:
        name: its name.
        names: the names of the arguments that exist.
    """
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    cure = f"Did you mean '{nearest[0]}'?" if nearest else f"Its arguments are: {', '.join(names)}."
    return f"there is no argument '{name}'. {cure}"
