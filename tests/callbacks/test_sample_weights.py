"""ScalarStats gives each sample the same weight, for every runner and input, and says so where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.trainers import ScalingTrainer, run

from tensorpack_lite.callbacks.inference import Inferencer, ScalarStats
from tensorpack_lite.callbacks.inference_runner import DataParallelInferenceRunner, InferenceRunner
from tensorpack_lite.callbacks.sharded_inference import ShardedInferenceRunner
from tensorpack_lite.callbacks.towers_hook import count_samples
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.tfutils.tower.func import TowerFunc

WARNING = "ScalarStats: all datapoints have the same weight in the mean, because the inputs do not show"
RUNNERS = {
    "one": InferenceRunner,
    "feed": lambda df, infs: InferenceRunner(FeedInput(df, infinite=False), infs),
    "queue": lambda df, infs: InferenceRunner(QueueInput(df), infs),
    "dataset": lambda df, infs: InferenceRunner(TFDatasetInput(df), infs),
    "unknown length": lambda df, infs: InferenceRunner(DataFromGenerator(lambda: iter(df)), infs),
    "two towers": lambda df, infs: DataParallelInferenceRunner(df, infs, 2),
    "three towers": lambda df, infs: DataParallelInferenceRunner(df, infs, 3),
    "sharded": ShardedInferenceRunner,
}


def samples(count, batch):
    """Return the samples 0, 1, ..., in batches, with the remainder."""
    return BatchData(DataFromList([[float(i)] for i in range(count)], shuffle=False), batch, remainder=True)


@pytest.mark.law
@pytest.mark.parametrize("count", [9, 10, 11, 4, 3])
@pytest.mark.parametrize("runner", RUNNERS)
def test_the_mean_over_samples(runner, count):
    """The mean of a cost is that over the samples, however they are divided into batches, in each epoch."""
    trainer = run(ScalingTrainer(), [RUNNERS[runner](samples(count, 4), ScalarStats("cost"))])

    mean = (count - 1) / 2
    assert [(2, 3 * mean), (4, 5 * mean)] == trainer.monitors.get_history("validation_cost")


def test_equal_batches_have_the_mean_of_their_means():
    """With batches of one size, the result is the plain mean, to the last digit, as in tensorpack."""
    stats, values = ScalarStats("cost"), np.random.RandomState(0).rand(100).astype("float32")
    stats._before_inference()
    stats.begin_datapoint(7, True)
    for value in values:
        stats.on_fetches([value])
    assert sum(map(float, values)) / 100 == stats.get_numbers()["validation_cost"]


IMAGE, LABELS, BOXES = [None, None, 3], [None], [None, 4]
SIGNATURES = {
    "one input": ([[None, 2]], [[[1, 2]], [[3, 2]]], "samples"),
    "inputs that agree": ([[None, None, 2], LABELS], [[[1, 5, 2], [1]], [[3, 4, 2], [3]]], "samples"),
    "class weights": ([[10], [None, 2], LABELS], [[[10], [1, 2], [1]], [[10], [3, 2], [3]]], "samples"),
    "boxes of an image": ([IMAGE, BOXES], [[[1, 5, 3], [2, 4]], [[3, 5, 3], [1, 4]]], "equal"),
    "a label without a batch": ([IMAGE, []], [[[1, 5, 3], []], [[3, 5, 3], []]], "equal"),
    "an image of any size": ([IMAGE], [[[1, 5, 3]], [[3, 5, 3]]], "equal"),
    "an image and its mask": ([IMAGE, [None, None]], [[[1, 5, 3], [1, 5]], [[3, 5, 3], [3, 5]]], "equal"),
    "one image and its boxes": ([[6, 6, 3], [None, 4]], [[[6, 6, 3], [1, 4]], [[6, 6, 3], [4, 4]]], "equal"),
    "a batch of one image": ([[1, None, 9, 3], [None, 4]], [[[1, 5, 9, 3], [1, 4]], [[1, 5, 9, 3], [4, 4]]], "equal"),
    "a fixed batch and labels": ([[8, 5], [None, 2], LABELS], [[[8, 5], [2, 2], [2]], [[8, 5], [5, 2], [5]]], "equal"),
    "nodes and edges": ([[None, 6], [2, None]], [[[3, 6], [2, 4]], [[9, 6], [2, 8]]], "equal"),
    "images of one size": ([IMAGE, BOXES], [[[3, 5, 3], [2, 4]], [[3, 4, 3], [1, 4]]], "same"),
    "scalars": ([[]], [[[]], [[]]], "same"),
    "fixed batches": ([[3, 2]], [[[3, 2]], [[3, 2]]], "same"),
}


def measure(name, **arguments):
    """Train on a signature of SIGNATURES. The value of the datapoints is 0 and 4; return the reported mean."""
    shapes, datapoints, _ = SIGNATURES[name]
    data = [
        [np.full(shape, 4.0 * index, "float32") for shape in datapoint] for index, datapoint in enumerate(datapoints)
    ]

    def model(*inputs):
        tf.reduce_mean(inputs[0], name="value")
        tf.constant(0.25, name="quarter")
        tf.constant(-0.25, name="below")
        tf.reduce_max(inputs[0], name="largest")
        tf.divide(tf.reduce_max(inputs[0]), tf.reduce_max(inputs[0]), name="undefined")

    spec = [tf.TensorSpec(shape, tf.float32, f"in{index}") for index, shape in enumerate(shapes)]
    names = arguments.pop("names", "value")
    stats = ScalarStats(names, "", **arguments)
    with tf.Graph().as_default():
        flow = DataFromList(data, shuffle=False)
        trainer = run(ScalingTrainer(), [InferenceRunner(flow, stats, tower_func=TowerFunc(model, spec))])
    found = {value for name in trainer.monitors.scalar_names for _, value in trainer.monitors.get_history(name)}
    return found.pop() if found else None


@pytest.mark.parametrize("name", SIGNATURES)
def test_what_is_a_batch(name, log_lines):
    """Inputs that do not show the number of samples lead to equal weights, with one warning; otherwise there is none."""
    expected = {"samples": 3.0, "equal": 2.0, "same": 2.0}[SIGNATURES[name][2]]
    assert expected == measure(name)
    assert (SIGNATURES[name][2] == "equal") == sum(WARNING in line for line in log_lines)


class TestWeight:
    @pytest.mark.parametrize(
        ("name", "weight", "expected"),
        [
            ("one input", 1, 2.0),
            ("boxes of an image", 1, 2.0),
            ("an image of any size", "quarter", 2.0),
            ("an image of any size", "largest", 4.0),
        ],
    )
    def test_a_given_weight(self, name, weight, expected, log_lines):
        """A number gives all datapoints the same weight, a tensor each its own, and there is no warning."""
        assert expected == measure(name, weight=weight)
        assert not any(WARNING in line for line in log_lines)

    def test_no_weight(self, log_lines):
        """A datapoint of weight 0 does not count, not even a NaN. If all have weight 0, a warning says that nothing is reported."""
        assert 1.0 == measure("one input", names="undefined", weight="largest")
        assert measure("one input", weight=0) is None
        assert any("the weight of all datapoints is 0, so nothing is reported" in line for line in log_lines)

    def test_negative(self):
        """A negative weight raises ValueError, and something other than a number or name raises TypeError."""
        with pytest.raises(ValueError, match=r"ScalarStats: the weight of a datapoint is negative \(.*, got -0.25\)"):
            measure("one input", weight="below")
        with pytest.raises(ValueError, match="ScalarStats: weight"):
            ScalarStats("cost", weight=-1)
        with pytest.raises(TypeError, match="ScalarStats: weight"):
            ScalarStats("cost", weight=[1, 2])

    def test_a_vector(self):
        """A weight that is not a scalar raises ValueError."""
        with pytest.raises(ValueError, match=r"expected a scalar, got 'in0' of shape \(1, 2\)"):
            measure("one input", weight="in0")


def test_a_subclass_that_keeps_its_own_sums():
    """A subclass that overrides all methods of a round, without calling the base class, reports its numbers."""

    class Largest(ScalarStats):
        def _before_inference(self):
            self.found = []

        def _on_fetches(self, results):
            self.found.append(float(results[0]))

        def _after_inference(self):
            return {"largest": max(self.found)}

    trainer = run(ScalingTrainer(), [InferenceRunner(samples(5, 2), Largest("cost"))])
    assert [(2, 12.0), (4, 20.0)] == trainer.monitors.get_history("largest")


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([[3, 2]], (3, 0)),
        ([[3]], (3, 1)),
        ([[0]], (0, 1)),
        ([[0, 2]], (0, 0)),
        ([[], [4]], (4, 0)),
        ([[], [0]], (0, 0)),
        ([[0], [5]], (5, 0)),
        ([[2], [5]], (2, 0)),
        ([[2, 6], [2]], (2, 1)),
        ([[]], (1, 1)),
        ([], (1, 1)),
    ],
)
def test_number_of_samples(shapes, expected):
    """
    The first input that is not empty tells the number of samples; scalars count only if there is nothing else. It is certain if all
    inputs agree, and one of them has no other dimension that may vary.
    """
    with tf.Graph().as_default(), tf.Session() as sess:
        inputs = [tf.placeholder_with_default(np.zeros(shape), [None] * len(shape)) for shape in shapes]
        assert expected == tuple(sess.run(count_samples(inputs, [x.shape for x in inputs])))


def test_an_input_of_unknown_rank():
    """An input of unknown rank counts, but is never certain alone."""
    with tf.Graph().as_default(), tf.Session() as sess:
        unknown = tf.placeholder_with_default(np.zeros([3, 2]), None)
        label = tf.placeholder_with_default(np.zeros([3]), [None])
        shapes = [tf.TensorShape(None), tf.TensorShape([None])]
        counts = [count_samples([unknown], shapes), count_samples([unknown, label], shapes)]
        assert [(3, 0), (3, 1)] == [tuple(sess.run(count)) for count in counts]
        # what the signature knows counts, too
        assert (3, 1) == tuple(sess.run(count_samples([unknown], [tf.TensorShape([None, 2])])))


def test_images_without_boxes():
    """An image whose boxes are an empty input is a datapoint for all inferencers."""

    class Count(Inferencer):
        def _before_inference(self):
            self.count = 0

        def _get_fetches(self):
            return ["value"]

        def _on_fetches(self, results):
            self.count += 1

        def _after_inference(self):
            return {"count": self.count}

    data = [[np.ones([6, 6, 3], "float32"), np.ones([number, 4], "float32")] for number in (0, 2, 0, 0)]
    spec = [tf.TensorSpec([6, 6, 3], tf.float32, "image"), tf.TensorSpec([None, 4], tf.float32, "boxes")]
    function = TowerFunc(lambda image, boxes: tf.reduce_mean(image, name="value"), spec)
    flow = DataFromList(data, shuffle=False)
    trainer = run(ScalingTrainer(), [InferenceRunner(flow, Count(), tower_func=function)])
    assert {4.0} == {value for _, value in trainer.monitors.get_history("count")}


def test_an_old_subclass():
    """A subclass of ScalarStats that does not call the constructor of its base class still works."""

    class Old(ScalarStats):
        def __init__(self, name):
            self.names, self.prefix = [name], "old"

    trainer = run(ScalingTrainer(), [InferenceRunner(samples(5, 2), Old("cost"))])
    assert [(2, 6.0), (4, 10.0)] == trainer.monitors.get_history("old_cost")
