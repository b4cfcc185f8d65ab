"""Progress bars, environment variables, and durations in words."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from contextlib import contextmanager
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Iterator

from . import logger
from .random_streams import fix_rng_seed, get_rng
from .streams import is_terminal

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = [
    "ENDLESS", "change_env", "execute_only_once", "fix_rng_seed", "get_rng", "get_tqdm", "get_tqdm_kwargs",
    "humanize_time_delta",
]  # fmt: skip

ENDLESS = 99999
"""The default `max_epoch` of TrainConfig: a training with so many epochs does not end by itself."""

_BAR_FORMAT = "{l_bar}{bar}|{n_fmt}/{total_fmt}[{elapsed}<{remaining},{rate_noinv_fmt}{postfix}]"
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def humanize_time_delta(sec: float) -> str:
    """
    Return a duration in words.

    Args:
        sec: seconds. Below 60, three significant digits are kept; from 60 on, whole seconds.

    Returns:
        E.g. "0.134 second", "1 minute 27 seconds", "2 days 1 hour".
    """
    if sec < 0:
        logger.warning(f"humanize_time_delta: the duration is negative (expected seconds >= 0, got {sec}).")
        return f"{sec} seconds"
    if sec < 60:
        return f"{sec:.3g} second" + ("s" if sec > 1 else "")
    parts, remaining = [], int(sec)
    for unit, seconds in _UNITS:
        count, remaining = divmod(remaining, seconds)
        if count > 0:
            parts.append(f"{count} {unit}" + ("s" if count > 1 else ""))
    return " ".join(parts)


@contextmanager
def change_env(name: str, val: str | None) -> Iterator[None]:
    """
    Set an environment variable inside the context.

    Args:
        name: the variable.
        val: its value; None unsets it.
    """
    before = os.environ.get(name)
    _set_env(name, val)
    try:
        yield
    finally:
        _set_env(name, before)


def execute_only_once() -> bool:
    """
    Return True the first time that the calling line is executed in this process, and False afterwards.

    Example:
        >>> [execute_only_once() for _ in range(3)]  # e.g. `if execute_only_once(): logger.warning(...)`
        [True, False, False]
    """
    caller = traceback.extract_stack(limit=2)[0]
    return next(_true_once(caller.filename, caller.lineno or 0), False)


def get_tqdm_kwargs(**kwargs: Any) -> dict[str, Any]:
    """
    Return the library's arguments for a tqdm progress bar, overridden by the given ones.

    `mininterval`, the seconds between two refreshes, is `$TENSORPACK_PROGRESS_REFRESH` if set. Otherwise it is 0.5 on
    a terminal or in a notebook, 60 in a SLURM job on several nodes or under Open MPI, and 30 elsewhere. A bar is removed
    when it is complete if the log is quiet (see `logger.set_quiet`).

    Args:
        **kwargs: arguments of `tqdm.tqdm`. `file` (default stderr) decides whether the bar is on a terminal.

    Raises:
        ValueError: `TENSORPACK_PROGRESS_REFRESH` is not a number, or `TENSORPACK_LITE_LOG` is unknown.
    """
    defaults = {
        "smoothing": 0.5,
        "dynamic_ncols": True,
        "ascii": True,
        "bar_format": _BAR_FORMAT,
        "mininterval": _refresh_seconds(kwargs.get("file") or sys.stderr),
        "leave": not logger.is_quiet(),
    }
    return {**defaults, **kwargs}


def get_tqdm(*args: Any, **kwargs: Any) -> tqdm:
    """
    Return a tqdm progress bar with the library's defaults.

    Without a terminal or notebook, it logs a line every `mininterval` seconds instead; see `LogBar`.

    Args:
        *args: positional arguments of `tqdm.tqdm`.
        **kwargs: keyword arguments of `tqdm.tqdm`; see `get_tqdm_kwargs` for the defaults. With `file`, the
            bar is always drawn there.
    """
    from .progress import choose_bar_class

    return choose_bar_class(kwargs.get("file"))(*args, **get_tqdm_kwargs(**kwargs))


@functools.lru_cache(maxsize=None)
def _true_once(filename: str, line: int) -> Iterator[bool]:
    """Return the same iterator for each call with the same line. It yields a single True."""
    return iter([True])


def _set_env(name: str, val: str | None) -> None:
    if val is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = val


def _refresh_seconds(file: IO[str] | None) -> float:
    """Choose the interval between two refreshes: short where a person watches, long where the bar fills a log."""
    chosen = os.environ.get("TENSORPACK_PROGRESS_REFRESH")
    if chosen:
        try:
            return float(chosen)
        except ValueError as error:
            raise ValueError(
                "get_tqdm_kwargs: TENSORPACK_PROGRESS_REFRESH is not a number "
                f"(expected seconds, got {chosen!r}). Unset it or set e.g. 5."
            ) from error
    draws_in_notebook = "ipykernel" in sys.modules and find_spec("ipywidgets") is not None
    if is_terminal(file) or draws_in_notebook:
        return 0.5
    has_many_ranks = int(os.environ.get("SLURM_JOB_NUM_NODES", 1)) > 1 or "OMPI_COMM_WORLD_SIZE" in os.environ
    return 60 if has_many_ranks else 30
