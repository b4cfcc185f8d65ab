"""Lint of the data: looks at the datapoints that training and validation get anyway."""

from __future__ import annotations

import itertools
from typing import Callable, Hashable, Sequence

import numpy as np

from ...input_source.base import InputSource
from ..data_check.data_rules import (
    LabelRuns,
    ZeroImages,
    different_ranges,
    image_range,
    labels_beyond_one,
    labels_out_of_range,
    not_finite,
)
from ..data_check.remarks import Remark
from ..data_check.repeats import MAX_SAMPLES, CommonSamples, RepeatedSamples, sample_digests
from .graph_view import trace_back
from .losses import find_cross_entropies
from .training import ExaminedTraining, find_dataflow

_MASKS = ("GreaterEqual", "NotEqual")
_NUM_FIRST = 2  # datapoints whose values are examined


def watch_data(
    training: ExaminedTraining, ignore: Sequence[str], report: Callable[[Sequence[Remark], bool], None]
) -> None:
    """
    Examine the datapoints of a training as they pass by. They are neither read twice nor changed.

    Args:
        training: the training.
        ignore: ids of rules to leave out.
        report: takes remarks, and whether they are about the first datapoint. It may raise an error, which ends training.
    """

    def report_wanted(remarks: Sequence[Remark | None], is_first: bool) -> None:
        found = [remark for remark in remarks if remark is not None and remark.rule not in ignore]
        if found:
            report(found, is_first)

    classes = _find_labels(training)
    examined: dict[str, float] = {}
    seen: dict[str, set[Hashable]] = {}
    for source in training.sources:
        if source.flow.converter is not None:
            # 0 also if there is no fixed set, e.g. if a simulator makes it
            length = training.length_of(source) or 0
            source.flow.converter.examine = _TrainingExamination(
                dict(classes), examined, ignore, report_wanted, length, seen
            )
    for runner in training.runners:
        if runner.input_source.flow.converter is not None:
            runner.input_source.flow.converter.examine = _ValidationExamination(
                examined, ignore, report_wanted, seen if len(training.runners) == 1 else {}
            )


def examine_first(source: InputSource) -> None:
    """Read the first datapoints of an input whose training will not start, so that they are examined."""
    dataflow = find_dataflow(source)
    if dataflow is not None and source.flow.converter is not None:
        for datapoint in itertools.islice(dataflow, _NUM_FIRST):
            source.flow.converter(datapoint)


class _TrainingExamination:
    """Examination of the first datapoints of the training data, and of the order of its labels in the first pass."""

    def __init__(
        self,
        classes: dict[str, int],
        examined: dict[str, float],
        ignore: Sequence[str],
        report: Callable[[Sequence[Remark | None], bool], None],
        length: int,
        seen: dict[str, set[Hashable]],
    ) -> None:
        self._classes = classes
        self._examined = examined
        self._report = report
        self._num_seen = 0
        self._zeros: dict[str, ZeroImages] = {}
        self._runs = (
            {name: LabelRuns(name) for name in classes if classes[name]} if length and "D01" not in ignore else {}
        )
        self._length = 0 if "D04" in ignore else length
        self._seen = seen
        self._repeats: dict[str, RepeatedSamples] = {}

    def __call__(self, datapoint: dict[str, np.ndarray]) -> bool:
        """Examine a datapoint. Return whether to call this again."""
        remarks: list[Remark | None] = []
        if self._num_seen < _NUM_FIRST:
            for name, array in datapoint.items():
                remarks += self._examine(name, array)
        for name in self._classes.keys() & datapoint.keys():
            num_classes = self._classes[name]
            labels = datapoint[name]
            wrong = labels_out_of_range(name, labels, num_classes) if num_classes else labels_beyond_one(name, labels)
            if wrong is not None:
                remarks.append(wrong)
                del self._classes[name]  # one remark is enough
        for name, runs in list(self._runs.items()):
            if name in datapoint:
                remarks.append(runs.feed(datapoint[name]))
            if runs.is_done:
                del self._runs[name]
        more = self._length > 0 and self._examine_samples(datapoint, remarks)
        self._num_seen += 1
        self._report(remarks, self._num_seen == 1)
        return self._num_seen < _NUM_FIRST or bool(self._runs) or more

    def _examine_samples(self, datapoint: dict[str, np.ndarray], remarks: list[Remark | None]) -> bool:
        """Compare the images of a datapoint with earlier ones. Return whether more samples are needed."""
        more = False
        for name, array in datapoint.items():
            digests = sample_digests(array)
            if not digests:
                continue
            seen = self._seen.setdefault(name, set())
            if name not in self._repeats:
                self._repeats[name] = RepeatedSamples(name, self._length * len(array))
            remarks.append(self._repeats[name].feed(digests))
            seen.update(digests[: MAX_SAMPLES - len(seen)])
            more = more or len(seen) < MAX_SAMPLES
        return more and self._num_seen < self._length

    def _examine(self, name: str, array: np.ndarray) -> list[Remark | None]:
        remarks = [self._zeros.setdefault(name, ZeroImages(name)).feed(array)]
        if self._num_seen == 0:
            largest = image_range(array)
            if largest is not None:
                self._examined[name] = largest
            remarks.append(not_finite(name, array))
        return remarks


class _ValidationExamination:
    """Comparison of the first datapoint of validation with that of training, and of its samples with those of training."""

    def __init__(
        self,
        examined: dict[str, float],
        ignore: Sequence[str],
        report: Callable[[Sequence[Remark | None], bool], None],
        seen: dict[str, set[Hashable]],
    ) -> None:
        self._examined = examined
        self._num_seen = 0
        self._seen = {} if "D04" in ignore else seen
        self._common: dict[str, CommonSamples] = {}
        self._report = report

    def __call__(self, datapoint: dict[str, np.ndarray]) -> bool:
        """Examine a datapoint. Return whether to call this again."""
        remarks: list[Remark | None] = []
        for name in self._examined.keys() & datapoint.keys() if self._num_seen == 0 else ():
            largest = image_range(datapoint[name])
            if largest is not None:
                remarks.append(different_ranges(name, self._examined[name], largest))
        self._num_seen += 1
        for name in self._seen.keys() & datapoint.keys():
            if name not in self._common:
                self._common[name] = CommonSamples(name, self._seen[name])
            if not self._common[name].is_done:
                remarks.append(self._common[name].feed(sample_digests(datapoint[name])))
        self._report(remarks, False)
        return any(not samples.is_done for samples in self._common.values())


def _find_labels(training: ExaminedTraining) -> dict[str, int]:
    """Return the number of classes for each input that is used as the labels of a cross entropy; 0 for those of a sigmoid."""
    if not training.towers:
        return {}
    names, found = training.input_names, {}
    ends = {tensor.op.name for tensor in training.towers[0].inputs}
    for loss in find_cross_entropies(training.graph, training.before_cost):
        if loss.labels is None or loss.function.startswith("softmax"):
            continue
        source, shape = trace_back(loss.labels, ends), loss.logits.shape
        is_sigmoid = loss.function.startswith("sigmoid")
        num_classes = 0 if is_sigmoid else shape.as_list()[-1] if shape.rank else None
        if is_sigmoid and any(op.type in _MASKS for op in source.consumers()):
            continue  # labels such as -1 may be left out
        if source.name in names and (source.shape.rank == 1 or is_sigmoid) and num_classes is not None:
            found[names[source.name]] = num_classes
    return found
