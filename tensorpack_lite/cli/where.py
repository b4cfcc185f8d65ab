"""`tensorpack-lite where`: say where a running training is, without disturbing it."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

from ..dataflow.process.stack_file import NAME, ask_for_stacks
from ..diagnostics.hangs.where_socket import NoAnswer, ask
from ..utils.process_state import describe_trouble
from ..utils.stacks import describe_place, parse_stacks
from ..utils.training_lock import TrainingLock

_SECONDS = 8.0


def where(args: argparse.Namespace) -> int:
    """
    Print the paragraph of a training that runs on this machine.

    Args:
        args: the parsed arguments: `training`, a directory or a pid, and `stacks`.

    Returns:
        0; 1 if the training does not answer, in which case the stacks that the system could get are printed.

    Raises:
        ValueError: no training of this user runs there.
    """
    pid = _find_pid(args.training)
    try:
        found = ask(pid, _SECONDS)
    except NoAnswer:
        _print_from_outside(pid)
        return 1
    if found is None:
        raise ValueError(
            f"process {pid} is not in the loop of a training (expected a training of this user on this machine, which runs "
            "a version of tensorpack_lite that has this command)."
        )
    sys.stdout.write(f"Process {pid}: {found.get('text', '')}\n")
    if args.stacks:
        sys.stdout.write(f"\n{found.get('stacks', '')}\n")
    return 0


def _find_pid(training: str) -> int:
    if not os.path.isdir(training):
        if training.isdigit():
            return int(training)
        raise ValueError(f"'{training}' is neither a directory nor a process id.")
    holder = TrainingLock.holding_process(training)
    if holder is None:
        raise ValueError(f"no training runs in '{training}' on this machine.")
    return holder


def _print_from_outside(pid: int) -> None:
    """Print what can be seen without the help of the process's threads."""
    trouble = describe_trouble(pid)
    if trouble:
        sys.stdout.write(f"Process {pid} {trouble}.\n")
        return
    text = _stacks_of(pid)
    place = "".join(f" Its main thread is at {describe_place(stack)}." for stack in parse_stacks(text)[-1:])
    sys.stdout.write(
        f"Process {pid} does not answer: a thread holds the interpreter's lock in native code.{place}\n{text}\n"
    )


def _stacks_of(pid: int) -> str:
    """Return the stacks that the process writes at SIGUSR2, if it has a file for them."""
    directory = f"/proc/{pid}/fd"
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        with suppress(OSError):
            if NAME in os.readlink(path):
                with open(path, "rb") as file:
                    text = ask_for_stacks(pid, file.fileno())
                if text:
                    return text
    return ""
