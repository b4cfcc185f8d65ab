"""
The command line: `tensorpack-lite COMMAND ...` or `python -m tensorpack_lite COMMAND ...`.

**In:** arguments of a shell; checkpoints, parameter files and `stats.json` of training runs.
**Out:** tables on stdout, files, and an exit code: 0 for success, 1 if a difference or a broken promise was
found, 2 for an error, which is reported in one line on stderr. **Next:** the user's shell.

`arguments.py` defines the arguments of all commands, so that help and usage errors import nothing else. Each command is a
function of its name, which returns the exit code.
"""

from .main import main
