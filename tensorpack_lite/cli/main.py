"""Entry point of the command line: parses the arguments, runs the command, and reports errors in one line."""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Sequence

from ..utils.streams import standard_streams
from .arguments import make_parser

_ERROR = 2
# TensorFlow 2.21 announces oneDNN whatever the log level is. The commands compute nothing with TensorFlow.
_QUIET_TENSORFLOW = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
_RUN_USERS_CODE = {"program", "target"}  # arguments of commands that do


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
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return _ERROR
    if argv is None and not _RUN_USERS_CODE & set(vars(args)):
        os.environ.update(_QUIET_TENSORFLOW)
    try:
        # Some commands import TensorFlow, so only the command that runs is imported.
        module = importlib.import_module(f".{args.module}", __package__)
        return int(getattr(module, args.command.replace("-", "_"))(args))
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
