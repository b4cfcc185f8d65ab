"""Functions and types of Python 2, for the files of the script."""

from __future__ import annotations

import io
import sys
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from .said import caller
from .source import own_code

NoneType = type(None)
StringTypes = (str,)
atof, atoi = float, int
buffer = memoryview
find, lower, lstrip, maketrans = str.find, str.lower, str.lstrip, str.maketrans
replace, rstrip, split, strip, upper = str.replace, str.rstrip, str.split, str.strip, str.upper


class StringIO:
    """
    File in memory: of bytes if it starts with bytes, or bytes are written first, such as an image, and of text otherwise.

    Args:
        buf: what it contains at first.
    """

    def __init__(self, buf: str | bytes = "") -> None:
        is_bytes = isinstance(buf, (bytes, bytearray, memoryview))
        self._file: Any = io.BytesIO(buf) if is_bytes else io.StringIO(buf)  # type: ignore[arg-type]

    def write(self, data: Any) -> int:
        """Write text or bytes."""
        is_text = isinstance(self._file, io.StringIO)
        if is_text and isinstance(data, (bytes, bytearray, memoryview)) and not self._file.getvalue():
            self._file = io.BytesIO()
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        if name == "_file":  # of an object that is being unpickled
            raise AttributeError(name)
        return getattr(self._file, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)

    def __next__(self) -> Any:
        return next(self._file)

    def __enter__(self) -> StringIO:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def apply(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
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
