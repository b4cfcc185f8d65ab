"""The state of another process, from /proc. Elsewhere than on Linux, nothing is known."""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["catches_signal", "count_running_threads", "describe_trouble", "is_running"]


def describe_trouble(pid: int) -> str:
    """
    Return why a process does not run.

    Args:
        pid: its id.

    Returns:
        A phrase such as "is stopped (state T)", or "" if the process computes, waits for something that Python can show,
        or is unknown.
    """
    state = _status(pid).get("State", "")[:1]
    if state in ("T", "t"):
        return f"is stopped (state {state}: SIGSTOP, Ctrl-Z or a debugger; `kill -CONT {pid}` continues it)"
    if state in ("Z", "X"):
        return f"has ended (state {state})"
    if state == "D":
        wchan = _read(f"/proc/{pid}/wchan")
        return "waits for a disk or a network file system (state D" + (
            f", {wchan})" if len(wchan) > 1 else ")"
        )
    return ""


def catches_signal(pid: int, number: int) -> bool:
    """
    Return whether a process has a handler for a signal.

    Args:
        pid: its id.
        number: the signal.
    """
    return bool(int(_status(pid).get("SigCgt", "0"), 16) >> (number - 1) & 1)


def is_running(pid: int) -> bool:
    """Return whether the main thread of a process computes, or could if a core were free."""
    return _state_in(_read(f"/proc/{pid}/stat")) == "R"


def count_running_threads() -> int:
    """Return how many threads of this process compute, or could if a core were free. The calling one is among them."""
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return 1
    stats = (_read(f"/proc/self/task/{thread}/stat") for thread in threads)
    return sum(_state_in(stat) == "R" for stat in stats)


def _state_in(stat: str) -> str:
    """Return the letter of the state from the text of a file `stat`; "" if it is empty."""
    return stat.rpartition(")")[2].lstrip()[:1]


def _status(pid: int) -> dict[str, str]:
    lines = _read(f"/proc/{pid}/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _read(path: str) -> str:
    # the process may have ended, or belong to somebody else
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return ""
