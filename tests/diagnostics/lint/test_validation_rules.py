"""Rules of lint about the data of validation."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fakes.linted import images, lint

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import DataParallelInferenceRunner, InferenceRunner
from tensorpack_lite.callbacks.sharded_inference import ShardedInferenceRunner
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import length_or_none
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.common import MapData
from tensorpack_lite.dataflow.map_process import MultiProcessMapData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.dataflow.repeat import FixedSizeData
from tensorpack_lite.dataflow.runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tensorpack_lite.diagnostics.lint.validation_rules import repeated_samples, samples_left_out
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.models import FullyConnected


def samples(count=40):
    """Return samples, which are not read."""
    return DataFromList([[0]] * count)


def unchanged(datapoint):
    """Return a datapoint."""
    return datapoint


def remarks(data, infs=None, kind=InferenceRunner, **kwargs):
    """Return the remarks about validation with this data, which is not read."""
    runner = kind(data, infs or ScalarStats(["cost"]), **kwargs)
    training = SimpleNamespace(runners=[runner], signature=[], length_of=length_or_none)
    rules = [samples_left_out, repeated_samples]
    return [remark for rule in rules for remark in rule(training)]


def ids(*args, **kwargs):
    """Return the rules of these remarks."""
    return [remark.rule for remark in remarks(*args, **kwargs)]


def test_in_a_training():
    """Lint applies these rules to the runners of a training. A smaller last batch has no remark."""

    def regression(image, label):
        return tf.reduce_mean(tf.square(FullyConnected("fc", image, 1)))

    for remainder, expected in [(False, ["G18"]), (True, [])]:
        with tf.Graph().as_default():
            data = BatchData(images(38).ds, 4, remainder=remainder)
            found = lint(regression, [InferenceRunner(data, ScalarStats("cost"))])
        assert expected == [remark.rule for remark in found]


class TestSamplesLeftOut:
    def test_a_smaller_last_batch(self):
        """A remark has the number of samples that a BatchData without remainder drops, also one in the process of a runner."""
        (remark,) = remarks(BatchData(samples(38), 4))
        text = "validation leaves out 2 of 38 samples, because the last batch would be smaller."
        assert ("G18", text) == (remark.rule, remark.text)
        assert "Use BatchData(ds, 4, remainder=True)." == remark.advice
        assert ["G18"] == ids(MultiProcessRunnerZMQ(BatchData(samples(38), 4), 1))


class TestRepeatedSamples:
    def test_two_processes(self):
        """A remark names the stage, its processes, and what to use instead."""
        (remark,) = remarks(BatchData(MultiProcessRunnerZMQ(samples(), 2), 4))
        assert ("G19", "InferenceRunner") == (remark.rule, remark.name)
        assert "MultiProcessRunnerZMQ with 2 processes repeats datapoints: each process runs the whole" in remark.text
        assert "Use MultiProcessMapData(..., strict=True), or no runner." == remark.advice

    @pytest.mark.parametrize(
        "make",
        [
            lambda: MultiProcessRunner(BatchData(samples(), 4), 8, 2),
            lambda: MapData(MultiProcessRunnerZMQ(BatchData(samples(), 4), 3), unchanged),
            lambda: MultiProcessRunnerZMQ(BatchData(MultiProcessRunnerZMQ(samples(), 2), 4), 1),
            lambda: QueueInput(MultiProcessRunnerZMQ(BatchData(samples(), 4), 2)),
        ],
        ids=["older", "inside a stage", "inside a runner", "queue"],
    )
    def test_anywhere_in_the_pipeline(self, make):
        """The stage is found wherever it is in the pipeline."""
        assert ["G19"] == ids(make())

    @pytest.mark.parametrize("kind", [DataParallelInferenceRunner, ShardedInferenceRunner])
    def test_other_runners(self, kind):
        """The rule holds for all InferenceRunners, and the remark names the class."""
        kwargs = {"gpus": [0]} if kind is DataParallelInferenceRunner else {}
        (remark,) = remarks(MultiProcessRunnerZMQ(BatchData(samples(), 4), 2), kind=kind, **kwargs)
        assert ("G19", kind.__name__) == (remark.rule, remark.name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiProcessRunnerZMQ(BatchData(samples(), 4), 1),
        lambda: MultiProcessRunner(BatchData(samples(), 4), 8, 1),
        lambda: BatchData(MultiProcessMapData(samples(), 2, unchanged, buffer_size=8, strict=True), 4),
        lambda: FixedSizeData(MultiProcessRunnerZMQ(DataFromGenerator(lambda: iter(())), 2), 5),
        lambda: BatchData(samples(40), 4),
        lambda: BatchData(samples(38), 4, remainder=True),
    ],
    ids=["one process", "older, one process", "map", "random data without a length", "batches", "remainder"],
)
def test_no_remark(make):
    """One process, other stages with processes, data without a length, and all samples have no remark."""
    assert [] == ids(make())
