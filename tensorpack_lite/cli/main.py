"""Entry point of the command line: parses the arguments, runs the command, and reports errors in one line."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from typing import Sequence

from ..utils.streams import standard_streams
from .arguments import make_parser, split_program

_ERROR = 2
# TensorFlow 2.21 announces oneDNN whatever the log level is. The commands compute nothing with TensorFlow.
_QUIET_TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
# commands whose arguments end with a script and its own
_BEFORE_A_SCRIPT = ("find-batch", "find-lr", "lint", "rehearse", "run", "schedule", "summary")
_RUN_USERS_CODE = (*_BEFORE_A_SCRIPT, "data-check", "nan-replay", "resume-check")


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Args:
        argv: the arguments without the program's name. Default: those of this process, in which TensorFlow's C++ log is
            then turned off.

    Returns:
        The exit code: 0 for success, 1 if a difference or a broken promise was found, 2 for an error.

    Raises:
        SystemExit: as argparse does: with 0 after `--help`, with 2 for wrong arguments.
    """
    with standard_streams():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    arguments = list(sys.argv[1:] if argv is None else argv)
    program: list[str] = []
    if arguments[:1] and arguments[0] in _BEFORE_A_SCRIPT:
        options, program = split_program(arguments[1:])
        arguments = [arguments[0], *options]
    elif arguments[:1] == ["nan-replay"] and "--" in arguments:
        end = arguments.index("--")
        arguments, program = arguments[:end], arguments[end + 1 :]
    args = parser.parse_args(arguments, argparse.Namespace(program=program))
    if args.command is None:
        parser.print_help(sys.stderr)
        return _ERROR
    if argv is None and args.command not in _RUN_USERS_CODE:
        os.environ.update(_QUIET_TENSORFLOW)
    try:
        # Some commands import TensorFlow, so only the command that runs is imported.
        command = importlib.import_module("." + args.command.replace("-", "_"), __package__)
        return int(command.run(args))
    except _expected_errors() as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        sys.stderr.write(f"tensorpack-lite {args.command}: {text}\n")
        return _ERROR


def _expected_errors() -> tuple[type[Exception], ...]:
    """Return the errors that are reported in one line, with TensorFlow's if the command imported it."""
    errors: tuple[type[Exception], ...] = (OSError, ValueError, KeyError, ImportError, re.error)
    if "tensorflow" not in sys.modules:
        return errors
    from ..compat import tfv1

    return (*errors, tfv1.errors.OpError)
