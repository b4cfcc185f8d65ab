"""Progress bars: tqdm's on a terminal and in notebooks, log lines elsewhere."""

from __future__ import annotations

import io
import sys
import warnings
from typing import IO, Any

from tqdm import tqdm as plain_tqdm

from . import logger
from .streams import is_terminal


class LogBar(plain_tqdm):
    """
    Progress "bar" that logs one line every `mininterval` seconds, and nothing if the work ends before the first one.

    It replaces the bar where standard error is not a terminal, so that log files hold no carriage returns.
    """

    disable: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        seconds = kwargs["mininterval"]
        # tqdm draws a bar without delay at once, and its monitor thread draws a bar after `maxinterval`
        kwargs.update(delay=max(seconds, 1e-9), maxinterval=max(seconds, 10))
        kwargs["file"] = io.StringIO()  # it writes to the log only, also where `sys.stderr` is None
        kwargs["bar_format"] = "{n_fmt}/{total_fmt} ({rate_noinv_fmt}, {remaining} left){postfix}"
        super().__init__(*args, **kwargs)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Log the progress."""
        name = f"{self.desc}: " if self.desc else ""
        logger.info("%s%s", name, self)

    def close(self) -> None:
        """Stop without another line."""
        if not self.disable:
            self.disable = True
            self._decr_instances(self)


def choose_bar_class(stream: IO[str] | None) -> type[plain_tqdm]:
    """
    Choose the class of a progress bar.

    Args:
        stream: the file to draw the bar on; None means standard error.

    Returns:
        tqdm's class for this terminal, notebook or file, else `LogBar`.
    """
    with warnings.catch_warnings():  # tqdm falls back to text where ipywidgets is missing
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    is_notebook = "notebook" in tqdm.__mro__[1].__module__
    return tqdm if stream is not None or is_notebook or is_terminal(sys.stderr) else LogBar
