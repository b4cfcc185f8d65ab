"""Rules about the length of an epoch and of a pass over the data."""

from __future__ import annotations

from typing import Any, Iterator

from ...dataflow.base import DataFlow
from ...dataflow.batch import BatchData
from ...dataflow.doctor.stage_speed import walk
from ...dataflow.shuffle import LocallyShuffleData
from ...input_source.base import InputSource, ProxyInputSource
from ...utils.remarks import Remark
from .training import Training

__all__ = ["find_dataflow", "find_length", "length_of_epoch"]


def length_of_epoch(training: Training) -> Iterator[Remark]:
    """
    G15: an epoch was meant to be a pass over the data, and is not; or a shuffle buffer holds the data several times.

    Why: each step takes a datapoint for each tower, and a datapoint is usually a batch. With as many steps as datapoints, an epoch
    of four towers is four passes. With as many steps as samples, it is as many passes as a batch has samples. Schedules and
    validation then come later than intended. A buffer that is larger than the data delays the first step by several passes.

    Silent about all other numbers of steps, because epochs may have any length.

    Source: tensorpack issues 557, 598, 940, 1172.
    """
    steps, num_towers = training.steps_per_epoch, len(training.towers)
    for source in training.sources:
        flow = find_dataflow(source)
        if flow is None:
            continue
        size = find_length(source)
        if 1 < num_towers < steps == size:
            text = (
                f"steps_per_epoch is {steps}, the number of datapoints, but each step takes {num_towers} of them, one for each tower: "
                f"an epoch is {num_towers} passes."
            )
            advice = f"For one pass, use steps_per_epoch={steps // num_towers}."
            yield Remark("G15", type(flow).__name__, text, advice)
        for stage in walk(flow):
            if isinstance(stage, BatchData) and stage.batch_size > 1 and steps != size:
                yield from _steps_are_samples(steps, num_towers, stage)
            if isinstance(stage, LocallyShuffleData):
                yield from _large_buffer(stage)


def _steps_are_samples(steps: int, num_towers: int, stage: BatchData) -> Iterator[Remark]:
    if steps != find_length(stage.ds) or steps < stage.batch_size:
        return
    right = max(1, steps // (stage.batch_size * num_towers))
    text = f"steps_per_epoch is {steps}, the number of samples, but each step takes a batch of {stage.batch_size}."
    advice = f"For one pass in an epoch, use steps_per_epoch={right}."
    yield Remark("G15", type(stage).__name__, text, advice)


def _large_buffer(stage: LocallyShuffleData) -> Iterator[Remark]:
    length = find_length(stage.ds)
    if length is not None and stage.buffer_size >= 2 * length:
        passes = f"{stage.buffer_size / length:.1f} passes of {length} datapoints"
        text = f"its buffer of {stage.buffer_size} is filled with {passes} before the first step."
        yield Remark("G15", type(stage).__name__, text, f"Use buffer_size={length} at most.")


def find_length(data: Any) -> int | None:
    """Return the length of a DataFlow or input; None if it has none."""
    try:
        return int(data.size() if isinstance(data, InputSource) else len(data))
    except NotImplementedError:
        return None


def find_dataflow(source: InputSource) -> DataFlow | None:
    """Return the DataFlow that an input reads; None if it reads something else."""
    inner: Any = source
    while isinstance(inner, ProxyInputSource):
        inner = inner._input
    flow = getattr(inner, "ds", None)
    return flow if isinstance(flow, DataFlow) else None
