"""Rules about the data of validation: that each sample is evaluated once."""

from __future__ import annotations

from typing import Any, Iterator

from ...dataflow.base import DataFlow
from ...dataflow.batch import BatchData, BatchDataByShape
from ...dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from ..data_check.remarks import Remark
from ..data_check.stage_speed import walk
from .training import ExaminedTraining, find_dataflow

_RUNNERS = (MultiProcessRunner, MultiProcessRunnerZMQ)


def samples_left_out(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G18: validation leaves out samples, because the last batch would be smaller than the others.

    Why: BatchData drops an incomplete batch, which suits training, where the next pass has another order. In validation, the same
    samples are omitted each time.

    Does not report omitted samples if the model needs batches of one size, or if the runner evaluates only a part of
    the data.

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

    Does not report a stage if its source has no length, because the source may yield other datapoints in each process.

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
        stage for stage in _stages(flow) if isinstance(stage, BatchData) and not isinstance(stage, BatchDataByShape)
    ]
