"""The native stacks of a process, which py-spy reads if it is installed."""

from __future__ import annotations

import shutil
import subprocess

_SECONDS = 10.0


def native_stacks(pid: int) -> str:
    """
    Return the native and Python stacks of all threads of a process, or what to do to get them.

    Args:
        pid: the process; it stands still while py-spy reads, for some milliseconds.
    """
    program, command = shutil.which("py-spy"), f"py-spy dump --native --pid {pid}"
    if program is None:
        return f"For the native stacks of process {pid}: pip install py-spy, then {command}"
    try:
        done = subprocess.run(
            [program, *command.split()[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command} failed: {error}"
    return f"{command}:\n{done.stdout}"
