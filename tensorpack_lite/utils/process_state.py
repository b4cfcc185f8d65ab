"""Small files of the operating system, and the state of another process in them. Elsewhere than on Linux, nothing is known."""

from __future__ import annotations

import os
from contextlib import suppress


def read_text(path: str) -> str:
    """Return the content of a file without the white space around it; "" if the file cannot be read."""
    # a process may have ended, or belong to somebody else
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return ""


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
        wchan = read_text(f"/proc/{pid}/wchan")
        where = f", {wchan}" if len(wchan) > 1 else ""
        return f"waits for a disk or a network file system (state D{where})"
    return ""


def catches_signal(pid: int, number: int) -> bool:
    """
    Return whether a process has a handler for a signal.

    Args:
        pid: its id.
        number: the signal.
    """
    return bool(int(_status(pid).get("SigCgt", "0"), 16) >> (number - 1) & 1)


def count_running_threads(pid: int | None = None) -> int:
    """
    Return how many threads of a process compute, or could if a core were free.

    Args:
        pid: its id. Default: this process, whose calling thread is one of them.
    """
    directory = f"/proc/{'self' if pid is None else pid}/task"
    try:
        threads = os.listdir(directory)
    except OSError:
        return int(pid is None)
    return sum(_fields(f"{directory}/{thread}/stat")[:1] == ["R"] for thread in threads)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, in steps of usually 0.01 s; 0 if it is unknown."""
    fields = _fields(f"/proc/{pid}/stat")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _fields(path: str) -> list[str]:
    """Return the fields of a file `stat` from the state on, which is the third of them; [] if there is no such file."""
    return read_text(path).rpartition(")")[2].split()


def _status(pid: int) -> dict[str, str]:
    lines = read_text(f"/proc/{pid}/status").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
