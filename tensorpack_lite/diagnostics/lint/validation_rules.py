"""Rules about the data of validation: that each sample is evaluated once, and counts as much as the others."""

from __future__ import annotations

from typing import Any, Iterator

from ...callbacks.inference import BinaryClassificationStats, ClassificationError, ScalarStats
from ...dataflow.base import DataFlow
from ...dataflow.batch import BatchData, BatchDataByShape
from ...dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from ..data_check.remarks import Remark
from ..data_check.stage_speed import walk
from .training import ExaminedTraining, find_dataflow

_RUNNERS = (MultiProcessRunner, MultiProcessRunnerZMQ)
_WEIGHTED = (ClassificationError, BinaryClassificationStats)
_NEGLIGIBLE = 0.01  # of the weight of all datapoints


def samples_left_out(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G18: validation leaves out samples, because the last batch would be smaller than the others.

    Why: BatchData drops an incomplete batch, which suits training, where the next pass has another order. In validation, the same
    samples are omitted each time.

    Silent if the model needs batches of one size, or if the runner evaluates only a part of the data.

    Source: a new user's validation of 50 of 60 images.
    """
    if any(spec.shape.ndims and spec.shape[:1].as_list() != [None] for spec in training.signature):
        return
    for runner, flow in _validations(training):
        for stage in _batches_in(flow):
            length = training.length_of(stage.ds) or 0
            left_out = length % stage.batch_size
            if left_out and not stage.remainder:
                text = f"validation leaves out {left_out} of {length} samples, because the last batch would be smaller."
                advice = f"Use BatchData(ds, {stage.batch_size}, remainder=True)."
                yield Remark("G18", runner.input_source.__class__.__name__, text, advice)


def repeated_samples(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G19: validation reads a `MultiProcessRunner` or `MultiProcessRunnerZMQ` with several processes.

    Why: each process runs the whole source, so one round has some samples several times, and others never. This suits training
    with random data.

    Silent if the source has no length, because it may yield other datapoints in each process.

    Source: a new user's validation in two processes.
    """
    for runner, flow in _validations(training):
        for stage in _stages(flow):
            if isinstance(stage, _RUNNERS) and stage.num_proc > 1 and training.length_of(stage.ds):
                text = (
                    f"{type(stage).__name__} with {stage.num_proc} processes repeats datapoints: each process runs the whole "
                    "source, so a round evaluates some samples several times and others never."
                )
                advice = "Use MultiProcessMapData(..., strict=True), or no runner."
                yield Remark("G19", str(runner), text, advice)


def smaller_last_batch(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G20: `ScalarStats` averages over batches of which the last one is smaller.

    Why: each datapoint has the same weight in the mean, so the samples of the smaller batch count more than the others.

    Silent if this changes the weight of the last batch by less than a hundredth of the whole, if another inferencer of the runner
    counts samples, or if the batches pass through a stage that changes their number.

    Source: a new user's accuracy over 70 images in batches of 64.
    """
    for runner, flow in _validations(training):
        stages = _batches_in(flow)
        if (
            len(stages) != 1
            or not stages[0].remainder
            or any(isinstance(inf, _WEIGHTED) for inf in runner.infs)
        ):
            continue
        size, length = stages[0].batch_size, training.length_of(stages[0].ds) or 0
        num_full, extra = divmod(length, size)
        is_known = training.length_of(flow) == num_full + 1
        if not extra or not num_full or not is_known or 1 / (num_full + 1) - extra / length < _NEGLIGIBLE:
            continue
        for inf in runner.infs:
            if type(inf) is ScalarStats:
                what = repr(inf.names[0] if len(inf.names) == 1 else inf.names)
                text = (
                    f"the last of {num_full + 1} datapoints has {extra} sample{'s' if extra > 1 else ''} and counts as much as one of "
                    f"{size}, so the mean is not that of the samples."
                )
                advice = "Use ClassificationError, or a batch size that divides the number of samples."
                yield Remark("G20", f"ScalarStats({what})", text, advice)


def _validations(training: ExaminedTraining) -> Iterator[tuple[Any, DataFlow]]:
    """Yield the runners that evaluate all datapoints of a DataFlow, with the DataFlow."""
    for runner in training.runners:
        flow = find_dataflow(runner.input_source)
        if flow is not None and runner.max_datapoints is None:
            yield runner, flow


def _stages(flow: DataFlow) -> Iterator[DataFlow]:
    """Yield the stages of a pipeline, also those in the process of a runner that has only one."""
    for stage in walk(flow):
        yield stage
        if isinstance(stage, _RUNNERS) and stage.num_proc == 1:
            yield from _stages(stage.ds)


def _batches_in(flow: DataFlow) -> list[Any]:
    """Return the stages that make batches of equal numbers of samples."""
    return [
        stage
        for stage in _stages(flow)
        if isinstance(stage, BatchData) and not isinstance(stage, BatchDataByShape)
    ]
