"""The files and scripts that commands read and run, checked before."""

from __future__ import annotations

import argparse
import os


def check_exists(path: str) -> str:
    """
    Return the path of an existing file or directory.

    Raises:
        FileNotFoundError: there is none.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist. The current directory is {os.getcwd()}.")
    return path


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
