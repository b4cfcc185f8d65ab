"""
Small helpers: random streams, progress bars, environment variables, times in words.

**Random streams.** Everything random in the library draws from a `RandomState` that `get_rng` made. Without a fixed
seed each of them starts from fresh entropy of the operating system. After `fix_rng_seed(seed)` each one is
determined by three things: the seed, the process it is made in, and how many were made in that process before. So
two objects never share a stream, and a script that does the same things in the same order gets the same streams, with
every version of NumPy.

Processes: a runner that starts workers asks for `make_worker_streams(n)` and each worker first of all calls
`enter_worker_stream` with its own. That carries the seed to spawned workers as well. A forked process that does not
do so is told apart by its name (`Process-1`, ...), which is also the same in every run.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import multiprocessing
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple, Tuple, Union

from . import logger

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "WorkerStream",
    "advance_rng_seed",
    "change_env",
    "enter_worker_stream",
    "execute_only_once",
    "fix_rng_seed",
    "get_rng",
    "get_tqdm",
    "get_tqdm_kwargs",
    "humanize_time_delta",
    "make_worker_streams",
    "reset_rng_seed",
]

_BAR_FORMAT = "{l_bar}{bar}|{n_fmt}/{total_fmt}[{elapsed}<{remaining},{rate_noinv_fmt}]"
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def get_rng(obj: object = None) -> np.random.RandomState:
    """
    Make a random generator of one's own.

    Args:
        obj: the object that will use it. Not looked at; kept because everybody passes it.

    Returns:
        A new `RandomState`: from fresh entropy or, after `fix_rng_seed`, the next reproducible stream of this process.

    Example:
        >>> fix_rng_seed(42)
        >>> get_rng().randint(100) == get_rng().randint(100)
        False

    Note:
        With a fixed seed the order of the calls matters, so make generators in one thread.

    tensorpack: same; there a fixed seed gives every object of every process the same stream.
    """
    import numpy as np

    key = _stream.next_key()
    if key is None:
        return np.random.RandomState(np.frombuffer(os.urandom(32), dtype=np.uint32))
    # RandomState's seeding by an array never changes; SeedSequence differs between NumPy 1.18 and 1.19
    digest = hashlib.sha256(repr(key).encode()).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


def fix_rng_seed(seed: int) -> None:
    """
    Make the streams of `get_rng` reproducible, from the next one on.

    Args:
        seed: any integer.

    Example:
        >>> fix_rng_seed(42)                # at the beginning of the main script

    Note:
        TensorFlow and `np.random` have seeds of their own: `tf.set_random_seed`, `np.random.seed`. A training that resumes from a
        checkpoint does not repeat the streams of its first epoch, see `advance_rng_seed`.
    """
    _stream.enter((int(seed),))


def advance_rng_seed(step: int) -> None:
    """
    Switch to other streams than those of the training's start, from the next `get_rng` on; a trainer that resumes does so.

    With the same seed and the same step, the streams are the same in every run. Without a fixed seed, nothing changes.

    Args:
        step: the `global_step` at which training continues; 0 changes nothing.
    """
    if step > 0:
        _stream.advance(f"step {int(step)}")


def reset_rng_seed() -> None:
    """Take a fixed seed back: streams come from fresh entropy again."""
    _stream.enter(None)


class WorkerStream(NamedTuple):
    """
    What a worker process needs to have random streams of its own; it can be pickled.

    Attributes:
        key: the seed and the way from the main process to the worker; None when no seed is fixed.
    """

    key: Union[Tuple[Any, ...], None]


def make_worker_streams(num: int) -> list[WorkerStream]:
    """
    Divide random streams among worker processes; the process that starts them calls this, once per group.

    Args:
        num: how many workers there are.

    Returns:
        One for each worker, to be handed to `enter_worker_stream` in it. All differ, and differ from those of any
        other group and of the calling process.

    Example:
        >>> streams = make_worker_streams(2)
        >>> procs = [Worker(dataflow, stream) for stream in streams]  # doctest: +SKIP
    """
    group = _stream.next_key()
    return [WorkerStream(None if group is None else group + (index,)) for index in range(num)]


def enter_worker_stream(stream: WorkerStream) -> None:
    """
    Use a worker's random streams in this process, from the next `get_rng` on; first thing in the worker.

    Args:
        stream: one of `make_worker_streams`.
    """
    _stream.enter(stream.key)


def humanize_time_delta(sec: float) -> str:
    """
    Say a time in words.

    Args:
        sec: seconds. Below 60, three significant digits are kept; from there on whole seconds.

    Returns:
        E.g. "0.134 second", "1 minute 27 seconds", "2 days 1 hour".

    tensorpack: same.
    """
    if sec < 0:
        logger.warning(f"humanize_time_delta: takes seconds >= 0, got {sec}")
        return f"{sec} seconds"
    if sec < 60:
        return f"{sec:.3g} second" + ("s" if sec > 1 else "")
    parts, rest = [], int(sec)
    for unit, seconds in _UNITS:
        count, rest = divmod(rest, seconds)
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

    tensorpack: same; there the old value is lost when the body raises.
    """
    before = os.environ.get(name)
    _set_env(name, val)
    try:
        yield
    finally:
        _set_env(name, before)


def execute_only_once() -> bool:
    """
    Tell whether the line that calls this is executed for the first time in the process.

    Example:
        >>> [execute_only_once() for _ in range(3)]  # e.g. `if execute_only_once(): logger.warning(...)`
        [True, False, False]

    tensorpack: same.
    """
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None:
        raise RuntimeError(
            "execute_only_once: this Python has no stack frames, so the calling line is unknown."
        )
    return next(_true_once(caller.f_code.co_filename, caller.f_lineno), False)


def get_tqdm_kwargs(**kwargs: Any) -> dict[str, Any]:
    """
    Choose the arguments of a tqdm progress bar: the library's, overridden by those given.

    `mininterval`, the seconds between two refreshes, is `$TENSORPACK_PROGRESS_REFRESH` if that is set; otherwise 0.5 on
    a terminal or in a notebook, 15 in a SLURM job on one node, 60 on several or under Open MPI, 180 elsewhere.

    Args:
        **kwargs: of `tqdm.tqdm`. `file` (default stderr) decides what counts as a terminal.

    Raises:
        ValueError: `TENSORPACK_PROGRESS_REFRESH` is not a number.

    tensorpack: same.
    """
    defaults = {
        "smoothing": 0.5,
        "dynamic_ncols": True,
        "ascii": True,
        "bar_format": _BAR_FORMAT,
        "mininterval": _refresh_seconds(kwargs.get("file") or sys.stderr),
    }
    return {**defaults, **kwargs}


def get_tqdm(*args: Any, **kwargs: Any) -> Any:
    """
    Make a tqdm progress bar with the library's look.

    Args:
        *args: of `tqdm.tqdm`.
        **kwargs: of `tqdm.tqdm`; see `get_tqdm_kwargs` for the defaults.

    tensorpack: same.
    """
    from tqdm import tqdm

    return tqdm(*args, **get_tqdm_kwargs(**kwargs))


class _RandomStream:
    """The ambient state of this module: which random streams come next in this process."""

    def __init__(self) -> None:
        self.enter(None)

    def enter(self, key: tuple[Any, ...] | None) -> None:
        self._key, self._pid = key, os.getpid()
        self._numbers = itertools.count()  # atomic, unlike += 1; and unlike a lock, it survives a fork

    def advance(self, mark: str) -> None:
        if self._key is not None:
            self.enter(self._key + (mark,))

    def next_key(self) -> tuple[Any, ...] | None:
        """Return a key that never came before, or None when no seed is fixed."""
        if self._key is None:
            return None
        if self._pid != os.getpid():  # forked, and nobody entered a worker stream
            self.enter(self._key + (multiprocessing.current_process().name,))
        return self._key + (next(self._numbers),)


_stream = _RandomStream()


@functools.lru_cache(maxsize=None)
def _true_once(filename: str, line: int) -> Iterator[bool]:
    """For each line of code one iterator, which gives a single True."""
    return iter([True])


def _set_env(name: str, val: str | None) -> None:
    if val is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = val


def _refresh_seconds(file: Any) -> float:
    """Choose how often a progress bar is redrawn: often where somebody watches, seldom where it fills a log."""
    chosen = os.environ.get("TENSORPACK_PROGRESS_REFRESH")
    if chosen:
        try:
            return float(chosen)
        except ValueError as error:
            raise ValueError(
                f"TENSORPACK_PROGRESS_REFRESH: takes a number of seconds, got {chosen!r}. Unset it or set e.g. 5."
            ) from error
    if file.isatty() or "ipykernel" in sys.modules:
        return 0.5
    if "SLURM_JOB_ID" in os.environ:
        return 60 if int(os.environ.get("SLURM_JOB_NUM_NODES", 1)) > 1 else 15
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        return 60
    return 180
