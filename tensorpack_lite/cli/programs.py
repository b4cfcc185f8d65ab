"""The script that a command runs, checked before it starts."""

from __future__ import annotations

import argparse

from .files import check_exists


def find_program(args: argparse.Namespace) -> list[str]:
    """
    Return the script or `-m module`, and its arguments.

    Raises:
        ValueError: there is none.
        FileNotFoundError: the script does not exist.
    """
    program: list[str] = args.program
    if not program or program == ["-m"]:
        raise ValueError(f"expected a script. Example: tensorpack-lite {args.command} train.py --gpu 0")
    if not program[0].startswith("-m"):
        check_exists(program[0])
    return program
