"""Inexact training runs are found: by the report before the first step, or by the witness, when other datapoints come after a resume."""

from __future__ import annotations

import json
import os
import queue
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow, ProxyDataFlow
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromIterable, DataFromList, DataFromQueue
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.tensor import TensorInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.exact.what_is_exact import begin_exact_resume
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.multi_gpu import AsyncMultiGPUTrainer
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger

DUE = "is not the one that was due: component 0 differs"
NUMBERS = [[np.float32(number)] for number in range(60)]


class Model(ModelDesc):
    """One weight; by option, TensorFlow's own random operation on its path, batches, and terms that are added in any order."""

    def __init__(self, noise=False, shape=(), terms=1):
        self.noise, self.shape, self.terms = noise, shape, terms

    def inputs(self):
        return [tf.TensorSpec(self.shape, tf.float32, "x")]

    def build_graph(self, x):
        weight = tf.get_variable("weight", initializer=0.0)
        if self.noise:
            x = x + tf.random_uniform([], name="noise")
        if self.terms > 1:
            x = tf.raw_ops.AccumulateNV2(inputs=[x * k for k in range(self.terms)], shape=[])
        return tf.reduce_mean(tf.square(weight - x), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.001)


class WaitForQueue(Callback):
    """Waits until the next eight datapoints are in the queue, so that the checkpoint has witnesses."""

    def __init__(self, source):
        self.source = source

    def _trigger(self):
        while isinstance(self.source, QueueInput) and self.trainer.sess.run(self.source._queue_size) < 8:
            time.sleep(0.001)


class PlainSession(tf.train.SessionCreator):
    """Creates a session that has only its global and local variables."""

    def create_session(self):
        session = tf.Session()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session


def train(directory, make_data, exact, max_epoch, model=None, trainer=None, savers=(ModelSaver,), creator=None):
    """Train for four steps per epoch, and save a checkpoint after each epoch."""
    logger.set_logger_dir(str(directory), action="k")
    with tf.Graph().as_default():
        data = make_data()
        config = AutoResumeTrainConfig(
            model=model or Model(),
            data=data,
            callbacks=[WaitForQueue(data), *(saver() for saver in savers)],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=4,
            max_epoch=max_epoch,
            exact=exact,
            session_creator=creator,
        )
        launch_train_with_config(config, trainer or SimpleTrainer())


# Found by the witness -------------------------------------------------------------------------------------------------
class Lister(DataFlow):
    """Yields the numbers that a function returns for each pass."""

    def __init__(self, function):
        self.function = function

    def __iter__(self):
        for number in self.function():
            yield [np.float32(number)]


def unseeded_shuffle(directory):
    numbers = list(range(60))
    np.random.RandomState().shuffle(numbers)
    return numbers


def shuffle_by_python(directory):
    numbers = list(range(60))
    random.shuffle(numbers)
    return numbers


def order_of_a_set(directory):
    """Return the names of files in the order of a set, which differs in each process."""
    program = "print([int(name) for name in {str(number) for number in range(60)}])"
    hashing = dict(os.environ, PYTHONHASHSEED="1" if not (directory / "checkpoint").exists() else "2")
    return json.loads(subprocess.check_output([sys.executable, "-S", "-c", program], env=hashing))


def changed_file(directory):
    numbers = np.arange(60)
    if (directory / "checkpoint").exists():
        numbers[6] = 100
    np.save(str(directory / "numbers.npy"), numbers)
    return np.load(str(directory / "numbers.npy"))


def wall_clock(directory):
    return (number + time.time() % 1 for number in range(60))


@pytest.mark.slow
@pytest.mark.any_tensorflow
@pytest.mark.parametrize("wrong", [unseeded_shuffle, shuffle_by_python, order_of_a_set, changed_file, wall_clock])
def test_other_data_is_found(tmp_path, log_lines, wrong, monkeypatch):
    """If other datapoints come after a resume, a warning names the stage to suspect; it is an error with "require"."""
    # After a later snapshot, used datapoints are replayed and differ first, which the next test examines.
    monkeypatch.setattr("tensorpack_lite.input_source.exact.data_position._SNAPSHOT_SECONDS", 1e9)

    def data():
        return QueueInput(Lister(lambda: wrong(tmp_path)))

    train(tmp_path, data, "require", 1)
    with pytest.raises(RuntimeError, match=f"QueueInput: datapoint [5-9] .*{DUE}.* Suspect Lister"):
        train(tmp_path, data, "require", 2)
    assert 0 == warnings(log_lines)
    train(tmp_path, data, True, 2)
    assert 1 == warnings(log_lines)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [unseeded_shuffle, order_of_a_set, wall_clock])
def test_other_data_is_found_without_reading_ahead(tmp_path, log_lines, wrong):
    """FeedInput reads nothing ahead: the used datapoints that a stage makes again are compared instead."""

    def data():
        return FeedInput(Lister(lambda: wrong(tmp_path)))

    found = "FeedInput: the replayed datapoints of Lister differ"
    train(tmp_path, data, "require", 1)
    with pytest.raises(RuntimeError, match=f"{found} .*Suspect Lister"):
        train(tmp_path, data, "require", 2)
    train(tmp_path, data, True, 2)
    assert 1 == len([line for line in log_lines if line.startswith(found)])


@pytest.mark.slow
def test_the_same_data_is_accepted(tmp_path, log_lines):
    """Datapoints that were replayed and are equal give no warning."""
    for max_epoch in (1, 2, 3):
        train(tmp_path, lambda: FeedInput(Lister(lambda: range(60))), "require", max_epoch)
    assert not [line for line in log_lines if "replayed datapoints of" in line]


class PartialSaver(ModelSaver):
    """Saves the weights only."""

    def __init__(self):
        super().__init__(var_collections=tf.GraphKeys.TRAINABLE_VARIABLES)


class LateVariable(Callback):
    """Creates a global variable in its setup."""

    def _setup_graph(self):
        tf.get_variable("late", initializer=0.0, trainable=False)


class OtherSaver(ModelSaver):
    """A user's saver that adds nothing to the state."""


@pytest.mark.parametrize("callbacks", [[PartialSaver], [ModelSaver, LateVariable]], ids=["partial", "late"])
def test_variables_that_are_not_saved(tmp_path, callbacks):
    """Variables that ModelSaver does not save are named before the first step."""
    name = "late" if LateVariable in callbacks else "global_step"
    found = f"NOT exact: 1 variables that ModelSaver does not save: {name} "
    with pytest.raises(RuntimeError, match=found):
        train(tmp_path, lambda: FeedInput(DataFromList(NUMBERS)), "require", 1, savers=callbacks)


def test_a_partial_saver_of_another_directory(tmp_path, log_lines):
    """A ModelSaver that writes only weights, to another directory, does not make training inexact; a user's subclass is assumed to add no state."""
    other = str(tmp_path / "other")
    savers = [
        ModelSaver,
        lambda: OtherSaver(checkpoint_dir=other, var_collections=tf.GraphKeys.TRAINABLE_VARIABLES),
    ]
    train(tmp_path, lambda: FeedInput(DataFromList(NUMBERS)), "require", 1, savers=savers)
    assert any("assumed to have no state: callback OtherSaver, callback WaitForQueue" in line for line in log_lines)


def warnings(log_lines):
    return len([line for line in log_lines if line.startswith("QueueInput: datapoint ") and DUE in line])


# Found before the first step ------------------------------------------------------------------------------------------
def filled_queue():
    filled = queue.Queue()
    for number in range(200):
        filled.put([np.float32(number)])
    return filled


class Forgets(ProxyDataFlow):
    """Does not reset its DataFlow."""

    def reset_state(self):
        """Do nothing."""


def user_queue():
    return QueueInput(DataFromList(NUMBERS), queue=tf.RandomShuffleQueue(60, 10, [tf.float32], [[]]))


NOT_EXACT = {
    "DataFromQueue": (lambda: QueueInput(DataFromQueue(filled_queue())), "what was taken from its queue is gone"),
    "generator": (lambda: FeedInput(DataFromGenerator(iter(NUMBERS))), "a running generator cannot begin again"),
    "iterable": (lambda: FeedInput(DataFromIterable(iter(NUMBERS))), "a running generator cannot begin again"),
    "below": (
        lambda: FeedInput(RepeatedData(DataFromIterable(iter(NUMBERS)), 1)),
        r"DataFromIterable \(a running generator",
    ),
    "not reset": (lambda: FeedInput(Forgets(Lister(range(60).__iter__))), "did not reset Lister"),
    "tensors": (lambda: TensorInput(lambda: [tf.constant(1.0)]), "TensorInput"),
    "queue": (user_queue, "a queue of the user does not tell which datapoints were used"),
    "random operation": (lambda: FeedInput(DataFromList(NUMBERS)), "1 random operations .*: noise/RandomUniform"),
    "order of terms": (
        lambda: FeedInput(DataFromList(NUMBERS)),
        r"AccumulateNV2: its terms are added in .*\(docs/reproducibility.md#cpu-threads\)",
    ),
    "trainer": (lambda: QueueInput(DataFromList(NUMBERS)), "AsyncMultiGPUTrainer"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_EXACT)
def test_not_exact(tmp_path, log_lines, name):
    """With "require", a training that is not exact ends before its first step. Without, a warning gives the same reason."""
    make, reason = NOT_EXACT[name]
    model = {"random operation": Model(noise=True), "order of terms": Model(terms=3)}.get(name)
    make_trainer = (lambda: AsyncMultiGPUTrainer([0])) if name == "trainer" else SimpleTrainer
    message = f"Exact resume: NOT exact: .*{reason}.* is an error; exact=True continues"
    with pytest.raises(RuntimeError, match=message):
        train(tmp_path, make, "require", 1, model, make_trainer())
    assert not (tmp_path / "checkpoint").exists()
    train(tmp_path, make, True, 1, model, make_trainer())
    assert 1 == len([line for line in log_lines if line.startswith("Exact resume: NOT exact: ")])


# Checkpoints without positions -----------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_checkpoint_without_positions(tmp_path, log_lines):
    """A checkpoint that was saved without `exact` is resumed with a warning that the data starts from the beginning; "require" refuses it."""

    def data():
        return FeedInput(DataFromList(NUMBERS))

    train(tmp_path, data, False, 1)
    sentence = "model-4 has no positions of the data: it was saved without exact. The data starts from the beginning."
    with pytest.raises(RuntimeError, match=sentence):
        train(tmp_path, data, "require", 2)
    assert not [line for line in log_lines if sentence in line]
    train(tmp_path, data, True, 2)
    assert 1 == len([line for line in log_lines if line.endswith(sentence)])


@pytest.mark.slow
def test_a_checkpoint_without_state(tmp_path, log_lines):
    """If a checkpoint has no .state file, as those of tensorpack, the warning also says that its epoch is unknown."""
    train(tmp_path, lambda: FeedInput(DataFromList(NUMBERS)), False, 1)
    (tmp_path / "model-4.state").unlink()
    sentence = "has no row for it. Training starts with epoch 1."
    with pytest.raises(RuntimeError, match=sentence):
        train(tmp_path, lambda: FeedInput(DataFromList(NUMBERS)), "require", 2)
    train(tmp_path, lambda: FeedInput(DataFromList(NUMBERS)), True, 2)
    assert 1 == len([line for line in log_lines if line.endswith(f"{sentence} The data starts from the beginning.")])


@pytest.mark.slow
def test_another_epoch(tmp_path, log_lines):
    """A user's trainer that does not pass the checkpoint's epoch is warned; with "require" that is an error."""
    train(tmp_path, lambda: FeedInput(DataFromList(NUMBERS)), True, 2)

    def resume(mode):
        with tf.Graph().as_default():
            found = AutoResumeTrainConfig.get_sessinit_resume(str(tmp_path))
            begin_exact_resume(found, mode)
            trainer = SimpleTrainer()
            model = Model()
            trainer.setup_graph(
                model.get_input_signature(),
                FeedInput(DataFromList(NUMBERS)),
                model.build_graph,
                model.get_optimizer,
            )
            trainer.train_with_defaults(
                session_init=found, steps_per_epoch=4, max_epoch=1, monitors=[], extra_callbacks=[]
            )

    sentence = "Training starts with epoch 1, as given, although the checkpoint was saved in epoch 2."
    with pytest.raises(RuntimeError, match=sentence):
        resume("require")
    resume(True)
    assert sentence in log_lines


@pytest.mark.slow
@pytest.mark.parametrize("creator", [None, PlainSession])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: QueueInput(DataFromList(NUMBERS)), []),
        (lambda: BatchQueueInput(DataFromList(NUMBERS), 4), [4]),
    ],
)
def test_exact(tmp_path, make, shape, creator):
    """Training with a queue is exact, whatever the session creator initializes."""
    train(tmp_path, make, "require", 1, Model(shape=shape), creator=creator and creator())
    assert (tmp_path / "checkpoint").exists()
