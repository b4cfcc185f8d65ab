"""
The process that `tensorpack-lite nan-replay` starts: it runs a script whose training executes one recorded step.

    python -m tensorpack_lite.cli.replaying DIR (script.py | -m module) [argument ...]
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from typing import Any, NoReturn, Sequence

from ..callbacks.autopsy_files import BATCH_FILE, RECORD_FILE
from ..callbacks.batch_capture import TowerBatch
from ..callbacks.nan_search import Culprit, Search
from ..compat import tfv1 as tf
from ..tfutils.sessinit import SmartInit
from ..train.base import Trainer
from ..utils import logger
from ..utils.npz import read_npz

__all__ = ["main", "run_step_again"]

_ERROR = 2


class _Ended(BaseException):
    """Ends the script in place of its training. Not an Exception, which the script might catch."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def main(arguments: Sequence[str]) -> int:
    """Run the script and return the exit code of `nan-replay`."""
    directory, *program = arguments
    with open(os.path.join(directory, RECORD_FILE), encoding="utf-8") as file:
        record = json.load(file)
    with tempfile.TemporaryDirectory() as log_directory:
        _replace_training(directory, record, log_directory)
        try:
            _run_program(program)
        except _Ended as ended:
            return ended.code
        except SystemExit as error:
            sys.stderr.write(f"nan-replay: the script ended with {error.code!r} before it trained.\n")
            return _ERROR
        finally:
            logger._directory.close()
    sys.stderr.write("nan-replay: the script ended without a training.\n")
    return _ERROR


def run_step_again(session: tf.Session, directory: str, record: dict[str, Any]) -> tuple[bool, str]:
    """
    Run a recorded step.

    Args:
        session: a session of the same model, with the variables of the recorded checkpoint.
        directory: the directory that `TerminateOnNaN` wrote.
        record: the content of its `step.json`.

    Returns:
        Whether the step is not finite again, and a sentence.

    Raises:
        KeyError: the graph has no tensor of a recorded name.
    """
    graph = session.graph
    arrays = read_npz(os.path.join(directory, BATCH_FILE))
    batches = []
    for tower, names in enumerate(record["inputs"]):
        values = {name: value for name, value in arrays.items() if name.startswith(f"tower{tower}/")}
        tensors = [graph.get_tensor_by_name(name) for name in names]
        datapoint = record["datapoints"][tower]
        batches.append(TowerBatch(tower, list(values), tensors, list(values.values()), datapoint))
    losses = [[graph.get_tensor_by_name(name) for name in names] for names in record["losses"]]
    gradients = {name: graph.get_tensor_by_name(tensor) for name, tensor in record["gradients"].items()}
    search = Search(session, batches, losses, gradients)
    batch = next((batch for batch in batches if search.is_bad(batch)), None)
    if batch is None:
        return False, (
            "No NaN: with the same batch and variables, the step is finite. It is not deterministic: suspect random "
            "operations such as dropout, a kernel, or the hardware."
        )
    samples = record["samples"] if record["is_alone"] else []
    activations = search.activations(Culprit(batch, samples, bool(samples)))
    first = activations[-1].name
    if record["first_bad"] in (None, first):
        where = f": '{first}' ({activations[-1].kind}) is {activations[-1].largest:.5g}"
        return (
            True,
            f"Same NaN{where}. The cause is in the model, its weights or the data, not in the hardware.",
        )
    return (
        True,
        f"The step is not finite again, but '{first}' is the first tensor, and was '{record['first_bad']}'.",
    )


def _replace_training(directory: str, record: dict[str, Any], log_directory: str) -> None:
    initialize = Trainer.initialize

    def initialize_from_checkpoint(trainer: Trainer, session_creator: Any, session_init: object) -> None:
        initialize(trainer, session_creator, SmartInit(os.path.join(directory, record["checkpoint"])))

    def replay(trainer: Trainer, *args: object, **kwargs: object) -> NoReturn:
        with trainer.sess.graph.as_default(), trainer.sess.as_default():
            try:
                is_same, sentence = run_step_again(trainer.sess, directory, record)
            except KeyError as error:
                sys.stderr.write(f"nan-replay: the model differs from the recorded one: {error.args[0]}\n")
                raise _Ended(_ERROR) from None
        trainer.hooked_sess.close()
        sys.stdout.write(f"{sentence}\n")
        sys.stdout.flush()
        raise _Ended(0 if is_same else 1)

    set_logger_dir = logger.set_logger_dir

    def use_temporary(dirname: str, action: str | None = None) -> None:
        set_logger_dir(log_directory, "k")

    Trainer.initialize = initialize_from_checkpoint  # type: ignore
    Trainer.main_loop = replay  # type: ignore
    logger.set_logger_dir = use_temporary  # the directory of the training stays as it is


def _run_program(program: Sequence[str]) -> None:
    if program[0] == "-m":
        sys.argv = list(program[1:])
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = list(program)
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
