"""
The step that `tensorpack-lite nan-replay` runs again.

In:  a session of the model, and the directory that `TerminateOnNaN` has written.
Out: whether the step is not finite again.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ...compat import tfv1 as tf
from ...tfutils.sessinit import SessionInit, SmartInit
from ...utils.npz import read_npz
from .autopsy_files import BATCH_FILE, RECORD_FILE
from .batch_capture import TowerBatch
from .nan_search import Culprit, Search


def read_record(directory: str) -> dict[str, Any]:
    """Return the record of a step that was not finite."""
    with open(os.path.join(directory, RECORD_FILE), encoding="utf-8") as file:
        return json.load(file)


def variables_of(directory: str) -> SessionInit:
    """Return the variables from before the recorded step."""
    return SmartInit(os.path.join(directory, read_record(directory)["checkpoint"]))


def replay(session: tf.Session, directory: str) -> int:
    """
    Run the recorded step, and print the result.

    Returns:
        0 if the step is not finite again, 1 if it is finite, 2 if the model differs from the recorded one.
    """
    with session.graph.as_default(), session.as_default():
        try:
            is_same, sentence = run_step_again(session, directory, read_record(directory))
        except KeyError as error:
            sys.stderr.write(f"nan-replay: the model differs from the recorded one: {error.args[0]}\n")
            return 2
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()
    return 0 if is_same else 1


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
    if batch is None and any(search.overflows(candidate) for candidate in batches):
        return True, (
            "Same step: the gradients are finite, but the square of their norm is not. The learning rate is too large, or "
            "the gradients have to be clipped."
        )
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
        cause = "The cause is in the model, its weights or the data, not in the hardware."
        return True, f"Same NaN{where}. {cause}"
    was = record["first_bad"]
    return True, f"The step is not finite again, but '{first}' is the first tensor, and was '{was}'."
