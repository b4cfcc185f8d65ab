"""The lines of the log: their format, and the handler that shows them on stdout."""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import Iterable, TextIO

from termcolor import colored

QUIET_VARIABLE = "TENSORPACK_LITE_LOG"
ONLY_WARNINGS = "warnings"  # its value in processes of commands that have their own output
_DATE_FORMAT = "%m%d %H:%M:%S"
_TAGS = {  # of the levels: text, color, attributes
    "DEBUG": ("DBG", "yellow", []),
    "WARNING": ("WRN", "yellow", ["bold"]),
    "ERROR": ("ERR", "red", ["bold"]),
    "CRITICAL": ("ERR", "red", ["bold"]),
}
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class LineFormatter(logging.Formatter):
    """
    Formatter of lines like `[0131 23:59:59] message`. Lines that are not at the level INFO have the place of the call and a
    tag: `[0131 23:59:59 @file.py:12] WRN message`. Without colors, those in a message are removed.
    """

    def __init__(self, has_colors: bool = False) -> None:
        # names asctime, so that the base class fills it in
        super().__init__("%(asctime)s", datefmt=_DATE_FORMAT)
        self._has_colors = has_colors

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the base class's name)
        """Return the line of a record, without a traceback."""
        place = "" if record.levelno == logging.INFO else f" @{record.filename}:{record.lineno}"
        words = [self._paint(f"[{record.asctime}{place}]", "green")]
        if record.levelname in _TAGS:
            words.append(self._paint(*_TAGS[record.levelname]))
        return " ".join([*words, record.message])

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        line = super().format(record)
        return line if self._has_colors else _ESCAPE_SEQUENCE.sub("", line)

    def _paint(self, text: str, color: str, attributes: Iterable[str] = ()) -> str:
        return colored(text, color, attrs=attributes) if self._has_colors else text


class StdoutHandler(logging.StreamHandler):
    """
    Handler that writes to the current `sys.stdout`, so that redirection and capture work. Without one, it shows nothing.

    Attributes:
        is_quiet: whether it leaves out what is neither a warning nor marked by `extra=FOR_QUIET`; None leaves that to the
            environment variable `TENSORPACK_LITE_LOG`. If the variable is "warnings", only warnings and errors are shown.
    """

    is_quiet: bool | None = None

    def __init__(self) -> None:
        logging.Handler.__init__(self)  # StreamHandler.__init__ would store the stream
        self._plain, self._colorful = LineFormatter(), LineFormatter(has_colors=True)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is shown."""
        value = os.environ.get(QUIET_VARIABLE)
        is_quiet = value == "quiet" if self.is_quiet is None else self.is_quiet
        is_wanted = value != ONLY_WARNINGS and (not is_quiet or hasattr(record, "is_for_quiet"))
        is_shown = is_wanted or record.levelno >= logging.WARNING
        return is_shown and sys.stdout is not None and bool(super().filter(record))

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """The current `sys.stdout`."""
        return sys.stdout

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record, with colors on a terminal."""
        return (self._colorful if self.stream.isatty() else self._plain).format(record)
