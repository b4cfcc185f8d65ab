"""
The library's logger, and the directory to which a training writes its files.

Messages go to stdout and, after `set_logger_dir` or `auto_set_dir`, also to `log.log` in that directory.
Checkpoints, event files and `stats.json` are written to the same directory by default.

The functions `info`, `warning`, ... are the bound methods of `logging.getLogger("tensorpack_lite")`, so warnings, errors
and debug messages show the file and line of the caller, and tests may patch them as attributes of this module.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from contextlib import contextmanager
from typing import Any, Iterator

from .log_lines import ONLY_WARNINGS, QUIET_VARIABLE, LineFormatter, StdoutHandler
from .missing_names import missing_name
from .naming import list_names
from .own_rank import GivenRank, find_given_rank
from .redaction import hide_secrets
from .redirection import redirect_log
from .streams import fill_descriptors
from .training_files import check_replaceable, is_occupied, make_beside, remove_training, with_timestamp
from .training_lock import TrainingLock

__all__ = [
    "addFilter", "auto_set_dir", "critical", "debug", "error", "exception", "get_logger_dir", "info",
    "lock_dir", "reset", "setLevel", "set_logger_dir", "set_quiet", "warn", "warning",
]  # fmt: skip

FOR_QUIET = {"is_for_quiet": True}  # `info(text, extra=FOR_QUIET)` is also shown when the log is quiet


def _make_logger() -> logging.Logger:
    logger = logging.getLogger("tensorpack_lite")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    return logger


def _find_stdout_handler() -> StdoutHandler:
    """Return the handler of an earlier execution (importlib.reload), or a new one, used unless the program has its own."""
    for handler in _logger.handlers:
        if isinstance(handler, StdoutHandler):
            return handler
    handler = StdoutHandler()
    if not _logger.handlers:
        _logger.addHandler(handler)
    return handler


class _LogDirectory:
    """The ambient state of this module: the logger's directory."""

    def __init__(self) -> None:
        self.path: str | None = None
        self._handler: logging.FileHandler | None = None
        self._lock: TrainingLock | None = None
        self._follows: GivenRank | None = None

    def open(self, path: str, name: str | None = "log.log", follows: GivenRank | None = None) -> None:
        """Create the directory and open its log file. Without a name, only remember the directory."""
        if name is not None:
            fill_descriptors()
            os.makedirs(path, exist_ok=True)
            self._handler = logging.FileHandler(os.path.join(path, name), encoding="utf-8")
            self._handler.setFormatter(LineFormatter())
            _logger.addHandler(self._handler)
        self.path, self._lock, self._follows = path, TrainingLock(path, warning), follows

    def close(self) -> None:
        """Close the log file, release the lock and forget the directory."""
        self.unlock()
        if self._handler is not None:
            _logger.removeHandler(self._handler)
            self._handler.close()
        self.path, self._handler, self._lock, self._follows = None, None, None, None

    @property
    def file(self) -> str | None:
        """The log file, or None."""
        return None if self._handler is None else self._handler.baseFilename

    def lock(self, wait: float) -> None:
        """Take the directory's lock, unless this process holds it or only rank 0 may."""
        if self._follows is not None:
            raise RuntimeError(
                f"logger.lock_dir: this process is rank {self._follows.rank} (by {self._follows.source}), so it has left "
                f"'{self.path}' to rank 0. But its trainer is that of a chief, so this process trains alone. If the ranks train "
                "together, use a trainer for several ranks, such as HorovodTrainer or CollectiveTrainer. If the processes train separately, set "
                "TENSORPACK_RANKS_SIZE=1, and give each of them a directory of its own."
            )
        if self._lock is not None and not self._lock.is_held:
            self._lock.acquire(wait)

    def unlock(self) -> None:
        """Release the directory's lock, if this process holds it."""
        if self._lock is not None:
            self._lock.release()


_logger = _make_logger()
_stdout = _find_stdout_handler()
_directory = _LogDirectory()

# These are the bound methods themselves. With wrapper functions, warnings would show the wrapper's file and line.
info = _logger.info
warning = _logger.warning
warn = _logger.warning
error = _logger.error
critical = _logger.critical
exception = _logger.exception
debug = _logger.debug
setLevel = _logger.setLevel  # noqa: N816 (logging's name)
addFilter = _logger.addFilter  # noqa: N816


def set_quiet(quiet: bool = True) -> None:
    """
    Show only warnings, errors and one line for each epoch of a training. Progress bars on a terminal stay.

    The line has the number of the epoch, its steps, its time, and the scalars that were reported in it. `log.log` still
    has all lines. The environment variable `TENSORPACK_LITE_LOG=quiet` does the same without a change of the script.

    Args:
        quiet: False shows all lines again, whatever the environment variable is.

    Example:
        >>> logger.set_quiet()  # doctest: +SKIP
    """
    _stdout.is_quiet = bool(quiet)


def is_quiet() -> bool:
    """
    Return whether `set_quiet` or `TENSORPACK_LITE_LOG=quiet` was used.

    Raises:
        ValueError: the variable has another value.
    """
    value = os.environ.get(QUIET_VARIABLE, "")
    if value == ONLY_WARNINGS:
        return True
    if value not in ("", "quiet"):
        raise ValueError(f"logger: {QUIET_VARIABLE} has an unknown value (expected 'quiet' or nothing, got {value!r}).")
    return value == "quiet" if _stdout.is_quiet is None else _stdout.is_quiet


def set_logger_dir(dirname: str, action: str | None = None) -> None:
    """
    Set the directory for the log file and, by default, for all other files of a training.

    Args:
        dirname: the directory; created if it does not exist.
        action: what to do if the directory contains files (other than hidden ones). "k" keeps them, e.g. to resume, and
            appends to log.log. "b" renames the directory to `<dirname>MMDD-HHMMSS`. "n" uses the new directory
            `<dirname>MMDD-HHMMSS` instead. "d" deletes the files that training runs have written; all other files and
            directories stay, and one log line names them. "q" raises an error. None asks on a terminal, and is "n" without one.

    Raises:
        OSError: the directory contains files, and `action` or the answer is "q" or unknown. With "d" or "b": another
            process trains in the directory (see `lock_dir`), or it is, or contains, the current directory or the home
            directory. With "d": there is no log, manifest or checkpoint of a training. Nothing has changed then.

    Example:
        >>> logger.set_logger_dir("train_log/mnist")  # doctest: +SKIP

    Note: if several processes were started together (see `own_rank.find_given_rank`), only rank 0 does this. Rank 1 writes
        its log to the end of `log-rank1.log` in the same directory if the action is "k" or "d", and otherwise to no file.
        With "b", "n" or None, rank 1 does not learn which directory rank 0 uses, so its `get_logger_dir()` is always `dirname`.

    Difference from tensorpack: "d" deletes only files of training runs. Without a terminal, None does not raise an error.
    `get_logger_dir()` is an absolute path, so a script may change the working directory.
    """
    path = os.path.abspath(dirname)  # a later os.chdir does not move the training
    replacement = redirect_log(path)
    if replacement:  # files that the script itself writes to `dirname` go there
        os.makedirs(path, exist_ok=True)
        path, action = replacement, "k"
    place = find_given_rank()
    if place is not None and place.rank > 0:
        _follow_chief(path, action, place)
    else:
        _open_as_chief(path, action, may_remove_rank_logs=place is None)
    info("Argv: " + hide_secrets(" ".join(sys.argv)))


def auto_set_dir(action: str | None = None, name: str | None = None) -> None:
    """
    Set `train_log/<name of the main script>[:<name>]` in the working directory as the logger's directory.

    Args:
        action: as in `set_logger_dir`.
        name: distinguishes runs of one script. On Windows, it is joined by "_" instead of ":".

    Raises:
        OSError: as in `set_logger_dir`.

    Note:
        Without a main script, in a notebook or an interactive session, the directory is `train_log/notebook`.
    """
    script = getattr(sys.modules["__main__"], "__file__", None) or "notebook"
    basename = os.path.splitext(os.path.basename(script))[0]
    if name:
        basename += ("_" if os.name == "nt" else ":") + name
    set_logger_dir(os.path.join("train_log", basename), action=action)


def get_logger_dir() -> str | None:
    """Return the absolute path of the directory of `set_logger_dir` or `auto_set_dir`, or None if none was set."""
    return _directory.path


def get_log_file() -> str | None:
    """Return the absolute path of the file to which this process logs, or None if there is none."""
    return _directory.file


def shown_path(path: str) -> str:
    """Return a path as the log shows it: relative to the logger's directory, if it is inside."""
    inside = f"{_directory.path}{os.sep}"
    return path[len(inside) :] if path.startswith(inside) else path


def lock_dir(wait: float = 75.0) -> None:
    """
    Lock the logger's directory for a training of this process.

    Training and `AutoResumeTrainConfig` call this function before they read or write any file, and training
    releases the directory when it ends. Call it before them to wait longer or shorter. It does nothing
    without a logger directory, or if this process already holds the lock. The lock is the file
    `training.lock`. The lock of a killed process is taken over: at once on this machine, and otherwise 60 seconds after its last
    sign of life, by the clock of the disk, so 75 seconds are enough for clocks that differ by a few seconds.

    Args:
        wait: maximum number of seconds to wait for another process, which is logged once.

    Raises:
        OSError: another process still trains in the directory after `wait` seconds. The message names the process.
        RuntimeError: this process is rank 1 or higher (see `own_rank.find_given_rank`), and only rank 0 may train there. A
            trainer for several ranks does not call this function there, so the process trains alone.

    Example:
        >>> logger.lock_dir(wait=600)  # doctest: +SKIP
    """
    _directory.lock(wait)


def unlock_dir() -> None:
    """Release the logger's directory if this process has locked it; see `lock_dir`."""
    _directory.unlock()


@contextmanager
def unlock_dir_on_error() -> Iterator[None]:
    """Context that releases the logger's directory if an exception is raised between `lock_dir` and training."""
    try:
        yield
    except BaseException:  # including Ctrl-C
        _directory.unlock()
        raise


def reset() -> None:
    """Close the log file, forget the directory, and undo `set_quiet`."""
    _directory.close()
    _stdout.is_quiet = None


def __getattr__(name: str) -> Any:
    if name == "LOG_DIR":  # upstream's global; the value lives in _directory
        return _directory.path
    raise missing_name(__name__, name)


_ADVICE = (
    "Pass action='k' (keep), 'b' (back up), 'n' (use a new name) or 'd' (delete the files of training runs) to set_logger_dir or "
    "auto_set_dir, or choose another directory."
)


def _open_as_chief(path: str, action: str | None, may_remove_rank_logs: bool) -> None:
    """Make room in the directory, and open the log file."""
    occupied = is_occupied(path)
    if occupied:
        action = (action or _choose_action(path)).strip().lower()
        if action not in ("k", "d", "b", "n"):
            raise OSError(f"set_logger_dir: the directory '{path}' contains files. {_ADVICE}")
        if action in ("d", "b"):
            holder = TrainingLock.holder(path)
            if holder is not None:
                raise OSError(f"set_logger_dir: the directory '{path}' cannot be deleted or moved: {holder}")
            check_replaceable(path, action)
    _directory.close()
    kept: list[str] = []
    if occupied and action == "d":
        kept = remove_training(path, may_remove_rank_logs)
    elif occupied:
        path = _make_room(path, str(action))
    _directory.open(path)
    if kept:
        info(f"Deleted the training in '{path}'. Other files stay: {list_names(kept, 10)}.")


def _follow_chief(path: str, action: str | None, place: GivenRank) -> None:
    """Use the directory without changing anything there besides the log of this rank."""
    _directory.close()
    action = (action or "").strip().lower()
    name = f"log-rank{place.rank}.log" if action in ("k", "d") else None
    _directory.open(path, name, place)
    info(
        f"Rank {place.rank} (by {place.source}) logs to {f'{path}/{name}' if name else 'no file'}. Only rank 0 changes "
        f"'{path}'. If these processes train separately, set TENSORPACK_RANKS_SIZE=1."
    )


def _choose_action(path: str) -> str:
    """Ask until the user answers. Without a terminal, choose a new directory."""
    if sys.stdin is None or not sys.stdin.isatty():
        warning(
            f"The directory '{path}' contains files, and there is no terminal to ask, so this training uses a new directory. "
            "To continue a training, pass action='k'."
        )
        return "n"
    warning(f"The log directory {path} exists. Use 'n' to train in a new directory, or 'b' to rename it.")
    warning(
        "If you're resuming from a previous run, you can choose to keep it. 'd' deletes the files of the previous run. "
        "Press any other key to exit: (k)eep / (d)elete / (b)ackup / (n)ew / (q)uit"
    )
    answer = ""
    while not answer:
        answer = input("Select Action: k (keep) / d (delete) / b (backup) / n (new) / q (quit): ").strip()
    return answer


def _make_room(path: str, action: str) -> str:
    """Rename an existing directory, or create one with a new name, and return the directory to use."""
    if action == "b":
        backup = with_timestamp(path)
        shutil.move(path, backup)
        info(f"Directory '{path}' backed up to '{backup}'")
    elif action == "n":
        path = make_beside(path)
        info(f"Use a new log directory {path}")
    return path
