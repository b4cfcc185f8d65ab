"""The examination of a step that was not finite: a sentence about the cause, and files to run the step again."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import numpy as np
from tabulate import tabulate

from ...compat import tfv1 as tf
from ...ranks.alone import Alone
from ...tfutils.partitions import join_parts
from ...tfutils.varmanip import save_checkpoint_vars
from ...utils import logger
from ...utils.naming import list_names
from ...utils.notes import write_note
from ..probe.request import own_program
from .autopsy_files import RECORD_FILE, describe_sample, write_batches, write_pictures
from .batch_capture import TowerBatch
from .nan_search import Activation, Culprit, Search, before_exchange, largest

_NUM_SHOWN = 30
_WAIT_SECONDS = 20.0  # for the rank that made the gradients NaN
_UNWRITTEN = (OSError, tf.errors.OpError)  # of files, which are less important than the cause


class Incident(NamedTuple):
    """
    A step whose losses or gradients were not finite.

    Attributes:
        step: its global_step, from 1.
        names: the names of the losses.
        losses: the tensors of the losses, for each tower.
        gradients: the tensors of the gradients, by the names of their variables.
        values: the values of the losses of all towers, then the squared norms of the gradients, if there are any.
        suspect: the first tensor of the first tower that was not finite; None if all were.
        is_variable: whether that is a variable.
        history: `values` of the last steps.
        batches: what the towers computed the step from.
        is_held: whether the update was held back.
        ranks: the connection to the other ranks.
        fails: whether training ends with an error, which the other ranks are told.
    """

    step: int
    names: list[str]
    losses: list[list[tf.Tensor]]
    gradients: dict[str, tf.Tensor]
    values: list[np.ndarray]
    suspect: tf.Tensor | None
    is_variable: bool
    history: list[Any]
    batches: list[TowerBatch]
    is_held: bool
    ranks: Alone = Alone()
    fails: bool = True

    @property
    def is_of_losses(self) -> bool:
        """Whether a loss was not finite; otherwise a gradient was."""
        num = sum(len(losses) for losses in self.losses)
        return not all(np.isfinite(value).all() for value in self.values[:num])

    @property
    def is_overflow(self) -> bool:
        """Whether only the squares of the gradients' norms are infinite, which they are above 3.4e38."""
        return bool(self.gradients) and not self.is_of_losses and not np.isnan(self.values[-1]).any()

    def checked_gradients(self) -> dict[str, tf.Tensor]:
        """Return the gradients that a run of this rank alone has to check: none if a loss was not finite."""
        return {} if self.is_of_losses else before_exchange(self.gradients)

    def norms(self) -> list[float]:
        """Return the norm of all gradients in each of the last steps; empty if they are not checked."""
        if not self.gradients:
            return []
        return [float(np.sqrt(np.sum(values[-1], dtype=np.float64))) for values in self.history]


class _Findings(NamedTuple):
    """
    Findings of the examination of a step.

    Attributes:
        weights: the values of all variables, by name.
        culprit: the samples that make the step not finite; None if there are none.
        activations: the tensors up to the first one that is not finite; empty without a culprit.
        reason: why the batch was not searched; None if it was.
    """

    weights: dict[str, np.ndarray]
    culprit: Culprit | None
    activations: list[Activation]
    reason: str | None


def examine(incident: Incident, message: str, session: tf.Session) -> str:
    """
    Find the cause, write `nan-<step>/` in the logger's directory, and write a note.

    Args:
        incident: what is known of the step.
        message: what is said of it already.
        session: the session of the training.

    Returns:
        The message, with the cause and the directory.
    """
    incident.ranks.channel.end_by_itself()  # even if another rank ends first
    # first, because operations that the loss waits for may update a variable when the step runs again
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    weights = session.run(variables)
    search = Search(session, incident.batches, incident.losses, incident.checked_gradients())
    culprit, activations, reason = None, [], search.why_not()
    if reason is None:
        try:
            culprit = search.culprit()
            activations = search.activations(culprit) if culprit is not None else []
        except tf.errors.OpError as error:
            reason = f"running the step again failed: {error.message}"
    found = _Findings(weights, culprit, activations, reason)
    parent = logger.get_logger_dir()
    directory = "" if parent is None else os.path.join(parent, f"nan-{incident.step}")
    # before waiting for another rank: soon after the end of one rank, the launcher ends the others
    files: list[str] = []
    failure: Exception | None = None
    try:
        files = _write_files(directory, incident, found) if directory else []
    except _UNWRITTEN as error:
        failure = error
    text = f"{message} {_cause(incident, found)} {_about_weights(incident, weights)}"
    if not directory:
        return text
    try:
        if failure is None:
            _write_text(directory, incident, found, text, files)
    except _UNWRITTEN as error:
        failure = error
    if failure is not None:
        text += f" The files of the step cannot be written: {failure}"
        write_note("nan", text, step=incident.step)
        return text
    text += f" Report, batch and checkpoint: {directory}. To run the step again: tensorpack-lite nan-replay {directory}"
    datapoint = culprit.batch.datapoint if culprit is not None and not incident.is_variable else None
    write_note("nan", text, directory=directory, step=incident.step, datapoint=datapoint)
    return text


def _cause(incident: Incident, found: _Findings) -> str:
    weights, culprit, activations, reason = found
    broken = [name for name, value in weights.items() if not _all_finite(value)]
    if not broken and culprit is None and reason is None and incident.is_overflow:
        return _about_overflow(incident)
    if broken and not incident.is_held and not incident.is_variable:
        return "The update of this step was not held back and broke variables, so the step cannot be run again."
    if broken:
        sentence = (
            f"A variable was not finite already ({list_names(broken)}): the update of step {incident.step - 1} broke it"
        )
        norms = incident.norms()[:-1]
        return f"{sentence}, {_compare(norms)}." if norms else f"{sentence}."
    if culprit is None:
        return _about_no_culprit(incident, reason)
    batch, samples = culprit.batch, culprit.samples
    where = f"datapoint {batch.datapoint} of tower {batch.tower}"
    if incident.ranks.size > 1:
        where += f" of rank {incident.ranks.rank}"
    if culprit.is_alone:
        plural = "s" if len(samples) > 1 else ""
        where += f", sample{plural} {', '.join(map(str, samples))} of 0-{batch.num_samples - 1}"
    parts = [f"The cause is in {where}"]
    if activations and not np.isfinite(activations[-1].largest):
        parts.append(_about_first_bad(activations))
    if culprit.is_alone:
        parts.append(f"sample {samples[0]}: {describe_sample(batch, samples[0])}")
    elif samples:
        parts.append(f"no single sample does it, only together: samples {samples[0]}-{samples[-1]}")
    return "; ".join(parts) + "."


def _about_overflow(incident: Incident) -> str:
    sentence = "The gradients are finite, but so large that the square of their norm is not: training has diverged."
    if len(incident.history) > 1:
        losses = zip(incident.names, incident.history[-2])
        before = [f"{name} was {float(np.sum(value)):.5g}" for name, value in losses]
        sentence += f" In the step before, {', '.join(before)}, and the norm {incident.norms()[-2]:.3g}."
    return f"{sentence} Lower the learning rate, or clip the gradients with gradproc.GlobalNormClip."


def _about_no_culprit(incident: Incident, reason: str | None) -> str:
    if incident.ranks.size > 1 and not incident.is_of_losses:
        failure = incident.ranks.channel.wait_for_failure(_WAIT_SECONDS if incident.fails else 0)
        cause = failure or "No other rank has told the cause; look at the logs of the other ranks."
        mine = "is finite" if reason is None else f"was not searched: {reason}"
        return f"The batch of this rank {mine}. {cause}"
    if reason is not None:
        return f"The batch was not searched: {reason}."
    return (
        "With the same batch and weights, the step is finite when it runs again. Suspect random operations, such as "
        "dropout, or a kernel that is not deterministic."
    )


def _about_first_bad(activations: list[Activation]) -> str:
    bad = activations[-1]
    op = tf.get_default_graph().get_tensor_by_name(bad.name).op
    known = {activation.name: activation.largest for activation in activations}
    inputs = [known[tensor.name] for tensor in op.inputs if tensor.name in known]
    about = f"'{bad.name}' ({bad.kind}) is {bad.largest:.5g}"
    return f"{about}, its inputs are finite, at most {max(inputs):.5g}" if inputs else about


def _compare(norms: list[float]) -> str:
    usual = f" (usual {np.median(norms[:-1]):.3g})" if len(norms) > 1 else ""
    return f"with a gradient norm of {norms[-1]:.3g}{usual}"


def _about_weights(incident: Incident, weights: dict[str, np.ndarray]) -> str:
    floats = {name: value for name, value in weights.items() if _is_float(value)}
    if not floats or not all(_all_finite(value) for value in floats.values()):
        return ""
    name = max(floats, key=lambda key: largest(floats[key]))
    size = f"the largest value is {largest(floats[name]):.5g}, in {name}."
    if not incident.is_held:
        return f"The update of this step was not held back. All variables are finite; {size}"
    return f"All variables are finite, as they were before the step; {size}"


def _write_files(directory: str, incident: Incident, found: _Findings) -> list[str]:
    """Write the batch, the checkpoint and pictures; return the names of the files, of which the first is that of the checkpoint."""
    os.makedirs(directory, exist_ok=True)
    files = write_batches(directory, incident.batches)
    step, weights = incident.step - 1, dict(found.weights)
    if "global_step" in weights:
        weights["global_step"] = np.asarray(step, np.asarray(weights["global_step"]).dtype)
    save_checkpoint_vars(join_parts(tf.global_variables(), weights), os.path.join(directory, f"model-{step}"))
    if found.culprit is not None and found.culprit.is_alone:
        files += write_pictures(directory, found.culprit.batch, found.culprit.samples)
    return [f"model-{step}", *files]


def _write_text(directory: str, incident: Incident, found: _Findings, text: str, written: list[str]) -> None:
    """Write `report.txt`, and `step.json`, which `tensorpack-lite nan-replay` reads."""
    checkpoint, *files = written
    culprit = found.culprit
    record = {
        "step": incident.step,
        "checkpoint": checkpoint,
        "losses": [[tensor.name for tensor in losses] for losses in incident.losses],
        "gradients": {name: tensor.name for name, tensor in incident.checked_gradients().items()},
        "inputs": [[tensor.name for tensor in batch.tensors] for batch in incident.batches],
        "first_bad": found.activations[-1].name if found.activations else None,
        "datapoints": [batch.datapoint for batch in incident.batches],
        "samples": culprit.samples if culprit is not None else [],
        "is_alone": culprit is not None and culprit.is_alone,
        "program": own_program(),
        "working_directory": os.getcwd(),
    }
    parts = [text, f"Files: {', '.join([*files, f'{checkpoint}.index'])}"]
    for title, headers, rows in _tables(incident, found):
        parts.append(f"{title}:\n{tabulate(rows, headers=headers)}")
    with open(os.path.join(directory, "report.txt"), "w", encoding="utf-8") as file:
        file.write("\n\n".join(parts) + "\n")
    with open(os.path.join(directory, RECORD_FILE), "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)


def _tables(incident: Incident, found: _Findings) -> list[tuple[str, list[str], list[list[Any]]]]:
    """Return the tables of the report: title, headers, rows."""
    tables: list[tuple[str, list[str], list[list[Any]]]] = []
    first = incident.step - len(incident.history) + 1
    norms = incident.norms()
    num = len(incident.names)
    rows = [
        [first + index, *(float(np.sum(value)) for value in values[:num]), *norms[index : index + 1]]
        for index, values in enumerate(incident.history)
    ]
    headers = ["step", *incident.names, *(["gradient norm"] if norms else [])]
    tables.append((f"Last {len(rows)} steps", headers, rows))
    if incident.gradients:
        gradients = [[n, float(np.sqrt(v))] for n, v in zip(incident.gradients, incident.values[-1])]
        tables.append(("Gradients of this step", ["variable", "norm"], gradients))
    if found.activations:
        shown = [list(activation) for activation in reversed(found.activations[-_NUM_SHOWN:])]
        title = "Tensors, from the first one that is not finite backwards"
        tables.append((title, ["tensor", "operation", "shape", "largest absolute value"], shown))
    floats = [(name, value.shape, largest(value)) for name, value in found.weights.items() if _is_float(value)]
    floats.sort(key=lambda row: -np.nan_to_num(row[2], nan=np.inf))
    headers = ["variable", "shape", "largest absolute value"]
    tables.append(("Variables before the step", headers, [list(row) for row in floats]))
    return tables


def _is_float(value: np.ndarray) -> bool:
    return bool(np.issubdtype(np.asarray(value).dtype, np.floating))


def _all_finite(value: np.ndarray) -> bool:
    return not _is_float(value) or bool(np.isfinite(value).all())
