"""The entry point: finds the command, runs it, turns errors into sentences."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from typing import Sequence

from .._version import __version__

__all__ = ["main"]

_COMMANDS = ("ls-checkpoint", "dump-params", "checkpoint-diff", "data-check", "env", "plot")
_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Args:
        argv: the arguments without the program's name; None means those of this process.

    Returns:
        The exit code: 0 done, 1 a difference was found, 2 an error, told on stderr.

    Raises:
        SystemExit: as argparse does: 0 after `--help`, 2 for arguments it does not understand.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="tensorpack-lite", description="Look at what trainings have written, and at this machine."
    )
    parser.add_argument("--version", action="version", version=f"tensorpack_lite {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    for name in [arguments[0]] if arguments[:1] and arguments[0] in _COMMANDS else _COMMANDS:
        # only the one that is wanted: some import TensorFlow, which takes seconds, and others do without
        command = importlib.import_module("." + name.replace("-", "_"), __package__)
        command.add_parser(commands).set_defaults(run=command.run)
    args = parser.parse_args(arguments)
    try:
        return int(args.run(args))
    except (OSError, ValueError, KeyError, ImportError, re.error, *_tensorflow_errors()) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        sys.stderr.write(f"tensorpack-lite {args.command}: {text}\n")
        return _ERROR


def _tensorflow_errors() -> tuple[type, ...]:
    """Return what TensorFlow raises for files it cannot read, if a command imported it."""
    if "tensorflow" not in sys.modules:
        return ()
    from ..compat import tfv1

    return (tfv1.errors.OpError,)
