"""Lint of the data: looks at the datapoints that training and validation get anyway."""

from __future__ import annotations

import itertools
from functools import partial, reduce
from typing import Callable, Collection, Hashable, Sequence

import numpy as np

from ...compat import tfv1 as tf
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
from .graph_view import PASSES_ON, constant_of, trace_back
from .losses import find_cross_entropies
from .training import ExaminedTraining, find_dataflow

# arithmetic with a constant between an input and labels
_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Div": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Sub": np.subtract,
}
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

    classes, computed = _find_labels(training)
    examined: dict[str, float] = {}
    seen: dict[str, set[Hashable]] = {}
    for source in training.sources:
        if source.flow.converter is not None:
            # 0 also if there is no fixed set, e.g. if a simulator makes it
            length = training.length_of(source) or 0
            source.flow.converter.examine = _TrainingExamination(
                dict(classes), computed, examined, ignore, report_wanted, length, seen
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
        computed: dict[str, Callable[[np.ndarray], np.ndarray]],
        examined: dict[str, float],
        ignore: Sequence[str],
        report: Callable[[Sequence[Remark | None], bool], None],
        length: int,
        seen: dict[str, set[Hashable]],
    ) -> None:
        self._classes = classes
        self._computed = computed
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
            if num_classes:
                wrong = labels_out_of_range(name, labels, num_classes)
            else:
                wrong = labels_beyond_one(name, self._computed[name](labels))
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


def _find_labels(training: ExaminedTraining) -> tuple[dict[str, int], dict[str, Callable[[np.ndarray], np.ndarray]]]:
    """
    Return what is known of the inputs that are the labels of cross entropies.

    Returns:
        The number of classes of each input, 0 for those of a sigmoid; and functions that compute the labels of a sigmoid.
    """
    names, classes, computed = training.input_names, {}, {}
    ends = {tensor.op.name for tensor in training.towers[0].inputs} if training.towers else set()
    for loss in find_cross_entropies(training.graph, training.before_cost) if training.towers else ():
        if loss.labels is None or loss.function.startswith("softmax"):
            continue
        if loss.function.startswith("sigmoid"):
            source, function = _labels_of_sigmoid(loss.labels, ends)
            if source is not None and source.name in names:
                classes[names[source.name]], computed[names[source.name]] = 0, function
            continue
        source, shape = trace_back(loss.labels, ends), loss.logits.shape
        if source.name in names and source.shape.rank == 1 and shape.rank and shape.as_list()[-1] is not None:
            classes[names[source.name]] = shape.as_list()[-1]
    return classes, computed


def _labels_of_sigmoid(
    labels: tf.Tensor, ends: Collection[str]
) -> tuple[tf.Tensor | None, Callable[[np.ndarray], np.ndarray]]:
    """Return the tensor of which labels are made by casts and arithmetic with numbers, and a function that makes them."""
    steps: list[Callable[[np.ndarray], np.ndarray]] = []
    tensor = labels
    while tensor.op.name not in ends:
        found = _step_before(tensor.op)
        if found is None or any(op.type in _MASKS for op in tensor.consumers()):
            break
        tensor, step = found
        steps.insert(0, step)
    if any(op.type in _MASKS for op in tensor.consumers()):
        return None, np.asarray  # labels such as -1 may be left out
    return tensor, lambda array: reduce(lambda values, step: step(values), steps, np.asarray(array))


def _step_before(op: tf.Operation) -> tuple[tf.Tensor, Callable[[np.ndarray], np.ndarray]] | None:
    """Return the input of an operation that changes its shape or type, or computes with a number, and a function that does it."""
    if op.type == "Cast":
        dtype = op.outputs[0].dtype.base_dtype
        is_known = dtype.is_floating or dtype.is_integer or dtype.is_bool
        number = np.float32 if dtype.is_floating else dtype.as_numpy_dtype
        return (op.inputs[0], lambda array: array.astype(number)) if is_known else None
    if op.type in PASSES_ON:
        return op.inputs[0], np.asarray
    if op.type == "Neg":
        return op.inputs[0], np.negative
    constants = [constant_of(tensor) for tensor in op.inputs[:2]] if op.type in _ARITHMETIC else []
    function = _ARITHMETIC.get(op.type, np.asarray)
    for index, number in enumerate(constants):
        if number is not None and number.size == 1:
            value = float(number.reshape(()))
            return op.inputs[1 - index], partial(_compute, function, value, index)
    return None


def _compute(function: Callable[..., np.ndarray], number: float, index: int, array: np.ndarray) -> np.ndarray:
    """Return a function of an array and a number, which is its first argument if `index` is 0."""
    return function(array, number) if index else function(number, array)
