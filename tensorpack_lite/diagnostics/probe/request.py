"""
Scripts that a command runs only until their training begins, or for a few steps of it.

Commands such as `tensorpack-lite lint` start the script in a process whose environment has a request. The trainer reads it,
does what it asks for, and ends the process with an exit code that no training has.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, NoReturn, Sequence

from ...utils.log_lines import ONLY_WARNINGS, QUIET_VARIABLE
from ...utils.redirection import VARIABLE as LOG_VARIABLE

if TYPE_CHECKING:
    from ...loop.extension import ExtendedTrainer
    from ...loop.trainer import TrainArguments

_VARIABLE = "TENSORPACK_LITE_REHEARSAL"
_FIRST_CODE, _NUM_CODES = 90, 3


class Request(NamedTuple):
    """
    The request to a trainer.

    Attributes:
        purpose: the name of the command.
        options: JSON values, which depend on the purpose.
    """

    purpose: str
    options: Mapping[str, Any]


def find_request() -> Request | None:
    """Return the request to this process; None in all processes that a command has not started."""
    text = os.environ.get(_VARIABLE)
    return Request(**json.loads(text)) if text else None


def arguments_of(trainer: ExtendedTrainer) -> TrainArguments:
    """
    Return the arguments of `train`.

    Raises:
        RuntimeError: the script calls the phases of the training itself.
    """
    if trainer.arguments is None:
        raise RuntimeError("A rehearsal needs a script that calls Trainer.train, or a function that does.")
    return trainer.arguments


def end_probe(result: int) -> NoReturn:
    """
    End this process.

    Args:
        result: what `run_probe` returns, 0 to 2.
    """
    raise SystemExit(_FIRST_CODE + result)


def own_program() -> list[str]:
    """Return the script of this process, or `-m` and a module, with its arguments; empty in an interactive session."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return ["-m", re.sub(r"\.__main__$", "", spec.name), *sys.argv[1:]]
    path = getattr(main, "__file__", None)
    return [] if path is None else [os.path.abspath(path), *sys.argv[1:]]


def run_probe(
    purpose: str,
    program: Sequence[str],
    options: Mapping[str, Any] | None = None,
    folder: str | None = None,
    log_directory: str | None = None,
    is_quiet: bool = False,
    consequence: str = ", so nothing was examined",
    has_answered: Callable[[], bool] = lambda: False,
) -> int:
    """
    Run a script until it has answered a request.

    Args:
        purpose, options: as in `Request`.
        program: the script or `-m module`, and its arguments.
        folder: the working directory; None means that of this process.
        log_directory: the directory for the script's log and checkpoints; None means a temporary one.
        is_quiet: whether its log has only warnings and errors.
        consequence: the end of the line about a script that failed or did not train.
        has_answered: returns whether the request was answered by a script that went on until its own end.

    Returns:
        The argument of `end_probe` in that process. 2 if it failed or did not train, after a line about it on stderr.
    """
    # the present directory is not searched for modules when the process runs in another one
    here = str(Path(__file__).resolve().parents[3])
    path_of_modules = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), here)))
    with tempfile.TemporaryDirectory(prefix=f"tensorpack-lite-{purpose}-") as temporary:
        variables = {
            "PYTHONPATH": path_of_modules,
            _VARIABLE: json.dumps({"purpose": purpose, "options": dict(options or {})}),
            LOG_VARIABLE: log_directory or temporary,
        }
        if is_quiet:
            variables.update({QUIET_VARIABLE: ONLY_WARNINGS, "TF_CPP_MIN_LOG_LEVEL": "3"})
        code = subprocess.call([sys.executable, *program], cwd=folder, env={**os.environ, **variables})
    if _FIRST_CODE <= code < _FIRST_CODE + _NUM_CODES:
        return code - _FIRST_CODE
    if code == 0 and has_answered():
        return 0
    problem = "ended without a training" if code == 0 else f"failed with exit code {code}"
    sys.stderr.write(f"tensorpack-lite {purpose}: {program[0]} {problem}{consequence}.\n")
    return 2
