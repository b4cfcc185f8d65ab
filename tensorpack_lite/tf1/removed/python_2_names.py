"""Functions and types of Python 2, for the files of the script."""

from __future__ import annotations

import io
import sys
from typing import Any, Callable, Iterable, Mapping, Sequence

from .said import caller
from .source import own_code

__all__ = ["StringIO", "apply", "cmp", "execfile", "join", "setdefaultencoding"]  # and aliases of types

NoneType = type(None)
StringTypes = (str,)
atof, atoi = float, int
buffer = memoryview
find, lower, lstrip, maketrans = str.find, str.lower, str.lstrip, str.maketrans
replace, rstrip, split, strip, upper = str.replace, str.rstrip, str.split, str.strip, str.upper


def StringIO(buf: str | bytes = "") -> Any:
    """Return a file in memory: of bytes if it starts with bytes, such as an image, and of text otherwise."""
    return io.BytesIO(buf) if isinstance(buf, (bytes, bytearray, memoryview)) else io.StringIO(buf)


def apply(
    function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Call a function."""
    return function(*args, **(kwargs or {}))


def cmp(x: Any, y: Any) -> int:
    """Return -1, 0 or 1 if `x` is smaller than, equal to or larger than `y`."""
    return (x > y) - (x < y)


def execfile(filename: str, globals: dict[str, Any] | None = None, locals: Any = None) -> None:
    """Run a file in `globals`, by default those of the module that calls."""
    frame = caller()
    names = globals if globals is not None else (frame.f_globals if frame else {})
    with open(filename, "rb") as file:
        source = file.read()
    code = own_code(filename, is_script=False) or compile(source, filename, "exec", dont_inherit=True)
    exec(code, names, locals)


def join(words: Iterable[str], sep: str = " ") -> str:
    """Join words (`string.join`)."""
    return sep.join(words)


joinfields = join


def setdefaultencoding(name: str) -> None:
    """Do nothing: Python 3 uses UTF-8 (`sys.setdefaultencoding`)."""
    if name.lower().replace("-", "") not in ("utf8", sys.getdefaultencoding().replace("-", "")):
        raise LookupError(f"sys.setdefaultencoding: Python 3 has only utf-8, got {name}. Remove the call.")
