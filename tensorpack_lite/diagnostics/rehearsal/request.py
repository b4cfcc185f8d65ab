"""
Scripts that a command runs only until their training begins.

`tensorpack-lite lint` and `nan-replay` start the script in a process whose environment has a request. The trainer reads it
in `Trainer.train`, does what it asks for, and ends the process with an exit code that no training has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, NoReturn, Sequence

from ...utils.logger import REPLACEMENT_VARIABLE

__all__ = ["Request", "end_rehearsal", "find_rehearsal", "run_rehearsal"]

_VARIABLE = "TENSORPACK_LITE_REHEARSAL"
_FIRST_CODE, _NUM_CODES = 90, 3


class Request(NamedTuple):
    """
    The request to a trainer.

    Attributes:
        purpose: "lint" or "nan-replay".
        step_directory: for "nan-replay", the directory that `TerminateOnNaN` wrote; otherwise "".
    """

    purpose: str
    step_directory: str = ""


def find_rehearsal() -> Request | None:
    """Return the request to this process; None in all processes that a command has not started."""
    text = os.environ.get(_VARIABLE)
    return Request(**json.loads(text)) if text else None


def end_rehearsal(result: int) -> NoReturn:
    """
    End this process.

    Args:
        result: what `run_rehearsal` returns, 0 to 2.
    """
    raise SystemExit(_FIRST_CODE + result)


def run_rehearsal(
    purpose: str, program: Sequence[str], step_directory: str = "", folder: str | None = None
) -> int:
    """
    Run a script until its training begins. Its log goes to a temporary directory.

    Args:
        purpose, step_directory: as in `Request`.
        program: the script or `-m module`, and its arguments.
        folder: the working directory; None means that of this process.

    Returns:
        The argument of `end_rehearsal` in that process. 2 if it failed or did not train, after a line about it on stderr.
    """
    # the present directory is not searched for modules when the process runs in another one
    here = str(Path(__file__).resolve().parents[3])
    path_of_modules = os.pathsep.join(one for one in (os.environ.get("PYTHONPATH", ""), here) if one)
    with tempfile.TemporaryDirectory(prefix=f"tensorpack-lite-{purpose}-") as directory:
        request = Request(purpose, step_directory)
        text = json.dumps(request._asdict())
        variables = {"PYTHONPATH": path_of_modules, _VARIABLE: text, REPLACEMENT_VARIABLE: directory}
        code = subprocess.call([sys.executable, *program], cwd=folder, env={**os.environ, **variables})
    if _FIRST_CODE <= code < _FIRST_CODE + _NUM_CODES:
        return code - _FIRST_CODE
    problem = "ended without a training" if code == 0 else f"failed with exit code {code}"
    sys.stderr.write(f"tensorpack-lite {purpose}: {program[0]} {problem}, so nothing was examined.\n")
    return 2
