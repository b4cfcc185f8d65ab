"""
The command line: `tensorpack-lite COMMAND ...`, or `python -m tensorpack_lite COMMAND ...`.

**In:** arguments of a shell; checkpoints, parameter files and `stats.json` of trainings.
**Out:** tables on stdout, files, an exit code: 0 done, 1 a difference was found, 2 an error with a sentence on stderr.
**Next:** the user's shell.

One command a file; each has `add_parser` (its arguments) and `run` (what it does, returns the exit code).
"""

from .main import main

__all__ = ["main"]
