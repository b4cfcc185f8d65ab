"""The entry point: finds the command, runs it, turns errors into sentences."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Sequence

from .._version import __version__
from ..compat import tfv1 as tf
from . import checkpoint_diff, data_check, dump_params, env, ls_checkpoint, plot

__all__ = ["main"]

_COMMANDS = (ls_checkpoint, dump_params, checkpoint_diff, data_check, env, plot)
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
    parser = argparse.ArgumentParser(
        prog="tensorpack-lite", description="Look at what trainings have written, and at this machine."
    )
    parser.add_argument("--version", action="version", version=f"tensorpack_lite {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    for command in _COMMANDS:
        command.add_parser(commands).set_defaults(run=command.run)
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except (OSError, ValueError, KeyError, ImportError, re.error, tf.errors.OpError) as error:
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        sys.stderr.write(f"tensorpack-lite {args.command}: {text}\n")
        return _ERROR
