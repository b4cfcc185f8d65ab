"""Exact training runs that are ended in other ways than by a kill, and that are started again with changes."""

from __future__ import annotations

import json
import os
import signal
import threading

import numpy as np
import pytest
from tensorflow.python.ops.lookup_ops import MutableHashTable

from tensorpack_lite.callbacks import (
    HyperParamSetterWithFunc,
    JSONWriter,
    LearningRateFinder,
    ModelSaver,
    PeriodicTrigger,
    ScheduledHyperParamSetter,
)
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.moments import after_step, of_step
from tensorpack_lite.loop.signals.end_signals import Preempted
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.models.batch_norm import BatchRenorm
from tensorpack_lite.tfutils.varmanip import kept_variables
from tensorpack_lite.tfutils.xla import with_xla
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.random_streams import fix_rng_seed


class Model(ModelDesc):
    """Its weight depends on the order of all datapoints."""

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        weight = tf.get_variable("weight", initializer=0.0)
        return tf.square(weight - x, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.2)


class Counted(Model):
    """Its cost depends on a local variable that each step increments."""

    dtype = tf.float32

    def build_graph(self, x):
        count = tf.Variable(
            tf.zeros([], self.dtype),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            name="count",
        )
        with tf.control_dependencies([count.assign_add(1)]):
            return super().build_graph(x + tf.cast(count.read_value(), tf.float32))


class Growing(Model):
    """Its cost depends on a local variable that each step makes longer."""

    def build_graph(self, x):
        steps = tf.Variable(
            np.zeros([0], "float32"),
            shape=[None],
            validate_shape=False,
            trainable=False,
            use_resource=True,
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            name="steps",
        )
        with tf.control_dependencies([steps.assign(tf.concat([steps, [1.0]], 0))]):
            return super().build_graph(x + tf.reduce_sum(steps.read_value()))


class BigCounted(Counted):
    """Has a local variable that is too large for the state of a checkpoint."""

    def build_graph(self, x):
        tf.Variable(tf.zeros([1 << 23]), trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="big")
        return super().build_graph(x)


class Renormalized(ModelDesc):
    """Each tower normalizes with its own moving averages, which BatchRenorm reads in training."""

    def inputs(self):
        return [tf.TensorSpec([4, 2], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(tf.square(BatchRenorm("bn", x, rmax=3.0, dmax=5.0) - 1), name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.2, 0.9)


class At(Callback):
    """Notes its calls at the moments of each step, and calls a function in one of them."""

    def __init__(self, step, function, moment="trigger_step", name="", notes=None):
        self.name, self.place, self.function = name, (name, moment, step), function
        self.notes = [] if notes is None else notes

    def _forward(self, moment):
        if moment in of_step():
            self.notes.append((self.name, moment, self.global_step))
            if self.notes[-1] == self.place:
                self.function()


class SlowSaver(ModelSaver):
    """An asynchronous saver whose thread waits until `go` is set. It skips saves meanwhile."""

    def __init__(self):
        super().__init__(asynchronous=True, busy="skip")
        self.go = threading.Event()

    def _before_train(self):
        super()._before_train()
        write = self._writer.write

        def wait_and_write(prefix, arrays):
            assert self.go.wait(60)
            write(prefix, arrays)

        self._writer.write = wait_and_write


def every_step():
    return PeriodicTrigger(ModelSaver(), every_k_steps=1)


def train(
    *more,
    savers=None,
    steps=5,
    epochs=4,
    exact=True,
    before=(),
    model=None,
    data=None,
    trainer=None,
    name="weight",
):
    """Train, or resume, with shuffled data of 7 datapoints. Return the weight at the end."""
    savers = [every_step()] if savers is None else savers
    weights = []
    at_end = CallbackFactory(
        after_train=lambda self: weights.append(self.trainer.sess.run(self.trainer.find_tensor(name)))
    )
    with tf.Graph().as_default():
        fix_rng_seed(3)
        config = AutoResumeTrainConfig(
            exact=exact,
            model=model or Model(),
            data=data or FeedInput(DataFromList([[np.float32(i)] for i in range(7)], shuffle=True)),
            callbacks=[*before, at_end, *savers, *more],
            extra_callbacks=[],
            monitors=[JSONWriter()],
            steps_per_epoch=steps,
            max_epoch=epochs,
        )
        launch_train_with_config(config, trainer or SimpleTrainer())
    return weights[0]


def latest():
    return os.path.basename(tf.train.latest_checkpoint(logger.get_logger_dir()))


def stop():
    raise StopTraining("enough")


@pytest.fixture
def wanted(tmp_path):
    """The weight of a training that was not interrupted."""
    logger.set_logger_dir(str(tmp_path / "whole"), action="d")
    weight = train()
    logger.set_logger_dir(str(tmp_path / "parts"), action="d")
    return weight


class TestStartedAgain:
    @pytest.mark.slow
    def test_after_stop_training(self, wanted):
        """A training that StopTraining ended inside an epoch continues there with the same data."""
        train(At(7, stop))
        assert wanted == train(At(0, stop))

    @pytest.mark.slow
    def test_with_a_larger_max_epoch(self, wanted):
        """A training that has finished continues with a larger max_epoch as if it had not ended."""
        train(epochs=1)
        train(epochs=3)
        assert wanted == train()

    @pytest.mark.slow
    def test_with_another_steps_per_epoch(self, wanted, log_lines):
        """With another steps_per_epoch, the data continues at the place that the log names."""
        train(At(7, stop))
        assert wanted == train(At(0, stop), steps=4, epochs=5)
        assert any("steps_per_epoch was 5 and is 4" in line and "step 3 of epoch 2" in line for line in log_lines)

    @pytest.mark.slow
    def test_with_another_callback(self, wanted, log_lines):
        """With an added callback, the data continues, and the log names the calls that are skipped."""
        train(At(7, stop))
        assert wanted == train(At(0, stop), before=[CallbackFactory()])
        assert any("are skipped: " in line and "At" in line for line in log_lines)

    @pytest.mark.slow
    def test_when_exactness_is_required(self, wanted):
        """With exact="require", skipped calls of callbacks are an error before the first step."""
        train(At(7, stop))
        with pytest.raises(RuntimeError, match='callbacks differ .* are skipped.*With exact="require"'):
            train(At(0, stop), before=[CallbackFactory()], exact="require")
        assert wanted == train(At(0, stop), exact="require")


class TestPreempted:
    def preempt(self):
        os.kill(os.getpid(), signal.SIGTERM)

    @pytest.mark.slow
    @pytest.mark.parametrize("moment", of_step())
    @pytest.mark.parametrize("preempted", "ab")
    def test_in_each_moment_of_a_step(self, wanted, moment, preempted):
        """After SIGTERM in a call, training ends before the next call, and continues with it: each call is made once."""
        notes = []

        def both(function):
            return [At(8 if name == preempted else None, function, moment, name, notes) for name in "ab"]

        with pytest.raises(Preempted):
            train(*both(self.preempt), savers=[ModelSaver()], exact="require")
        assert (preempted, moment, 8) == notes[-1]
        assert wanted == train(*both(stop), savers=[ModelSaver()], exact="require")
        assert notes == [
            (name, moment, step + (moment in after_step()))
            for step in range(20)
            for moment in of_step()
            for name in "ab"
        ]

    @pytest.mark.slow
    def test_while_another_checkpoint_is_written(self, wanted):
        """After SIGTERM, an asynchronous saver finishes the save in progress and saves once more, also with busy="skip"."""
        saver = SlowSaver()

        def preempt():
            assert saver._background.is_running
            self.preempt()
            threading.Timer(0.3, saver.go.set).start()

        with pytest.raises(Preempted):
            train(At(8, preempt), savers=[PeriodicTrigger(saver, every_k_steps=7)])
        assert "model-8" == latest()
        assert wanted == train(At(0, stop), savers=[PeriodicTrigger(ModelSaver(), every_k_steps=7)])

    @pytest.mark.slow
    def test_which_saver(self, wanted, tmp_path):
        """The saver of the logger's directory saves, wherever it is in the list."""
        other = str(tmp_path / "other")
        savers = [
            PeriodicTrigger(ModelSaver(checkpoint_dir=other), every_k_epochs=9),
            PeriodicTrigger(ModelSaver(), every_k_epochs=9),
        ]
        with pytest.raises(Preempted):
            train(At(8, self.preempt), savers=savers)
        assert "model-8" == latest()
        assert tf.train.latest_checkpoint(other) is None


@pytest.mark.slow
def test_a_checkpoint_that_was_being_replaced(wanted, log_lines):
    """A checkpoint whose replacement was interrupted by a kill is moved into place before training resumes, and is used."""
    train(At(7, stop))
    directory = logger.get_logger_dir()
    files = sorted((name for name in os.listdir(directory) if name.startswith("model-7.")), key=lambda n: n[8])
    aside = os.path.join(directory, ".saving")
    os.makedirs(aside)
    for name in files:
        os.rename(os.path.join(directory, name), os.path.join(aside, name))
    with open(os.path.join(aside, "moving"), "w") as file:
        json.dump({"name": "model-7", "files": files}, file)
    assert wanted == train(At(0, stop))
    assert any("Resuming from checkpoint" in line and "model-7" in line for line in log_lines)


def check_resumed(tmp_path, train_until, last_step=7):
    """Check that a training that ends after a step and is resumed has the weight of an uninterrupted one."""
    logger.set_logger_dir(str(tmp_path / "whole"), action="d")
    expected = train_until(At(0, stop))
    logger.set_logger_dir(str(tmp_path / "parts"), action="d")
    train_until(At(last_step, stop))
    assert expected.tobytes() == train_until(At(0, stop)).tobytes()


class TestLocalVariables:
    """Checkpoints do not contain local variables, so a training with exact saves those that it needs."""

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", [tf.float32, tf.int64])
    def test_of_the_user(self, tmp_path, dtype):
        """A local variable that the steps change continues with its value."""
        Counted.dtype = dtype
        check_resumed(tmp_path, lambda at: train(at, model=Counted(), exact="require"))

    @pytest.mark.slow
    def test_without_a_fixed_shape(self, tmp_path):
        """A local variable may have another shape in each step."""
        check_resumed(tmp_path, lambda at: train(at, model=Growing(), exact="require"))

    @pytest.mark.slow
    def test_too_large(self, tmp_path, log_lines):
        """Local variables that are too large for the state are named, and refused with "require"."""
        logger.set_logger_dir(str(tmp_path), action="d")
        with pytest.raises(RuntimeError, match="local variables big are not resumed .*at most 16 MB"):
            train(model=BigCounted(), exact="require")
        train(model=BigCounted())
        assert any("The local variables big are not resumed" in line for line in log_lines)

    @pytest.mark.slow
    def test_averages_of_another_tower(self, tmp_path):
        """The moving averages of the second tower, which BatchRenorm reads in training, continue with their values."""

        def train_towers(at):
            samples = [[np.float32([[i, 1], [2, i], [i, i], [1, 1]])] for i in range(7)]
            data = QueueInput(DataFromList(samples, shuffle=True))
            trainer = SyncMultiGPUTrainerReplicated([0, 1], mode="cpu")
            return train(at, model=Renormalized(), data=data, trainer=trainer, name="bn/gamma")

        check_resumed(tmp_path, train_towers)


class Predict(Callback):
    """Evaluates the model with the present weight after each epoch, as a user's own validation does."""

    def _setup_graph(self):
        self.predict = self.trainer.get_predictor(["x"], ["cost"])

    def _trigger_epoch(self):
        self.predict(np.float32(1))


@pytest.mark.slow
def test_predictors_are_no_inputs(wanted):
    """A callback may have a predictor of the trainer: it has no position, so nothing is inexact."""
    assert wanted == train(before=[Predict()], exact="require")


class Remembering(Model):
    """Its cost depends on a table, in which each step replaces a value."""

    def build_graph(self, x):
        table = MutableHashTable(tf.int64, tf.float32, 0.0)
        key = tf.constant([1], tf.int64)
        before = table.lookup(key)[0]
        with tf.control_dependencies([before]):
            insert = table.insert(key, [before + x])
        with tf.control_dependencies([insert]):
            return super().build_graph(tf.identity(before))


class CallsPython(Model):
    """Its cost depends on a Python function with a state."""

    def build_graph(self, x):
        return super().build_graph(tf.reshape(tf.py_func(lambda: np.float32(1), [], tf.float32), []) * x)


@pytest.mark.slow
def test_a_table(tmp_path):
    """The contents of a mutable table are resumed."""
    check_resumed(tmp_path, lambda at: train(at, model=Remembering(), exact="require"))


def test_state_that_no_checkpoint_has(tmp_path, log_lines):
    """Before the first step, the log names an operation whose state no checkpoint has; with exact="require", it is an error."""
    logger.set_logger_dir(str(tmp_path / "log"), action="d")
    named = "NOT exact: 1 operations whose state no checkpoint has: PyFunc"
    with pytest.raises(RuntimeError, match=named):
        train(model=CallsPython(), exact="require")
    train(model=CallsPython(), steps=1, epochs=1)
    assert any(named in line for line in log_lines)


class AnyBatch(Model):
    """Its input may have any number of samples."""

    def __init__(self, num):
        self.num = num

    def inputs(self):
        return [tf.TensorSpec([self.num], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(super().build_graph(x))


@pytest.mark.slow
@pytest.mark.parametrize("num", [2, None])
def test_xla(tmp_path, num):
    """A model that XLA compiles is exact only if its inputs have one shape, because a further shape is compiled later."""
    logger.set_logger_dir(str(tmp_path / "log"), action="d")
    model = AnyBatch(num)
    model.build_graph = with_xla(model.build_graph)
    data = QueueInput(BatchData(DataFromList([[np.float32(i)] for i in range(8)]), 2))
    options = {"model": model, "data": data, "steps": 1, "epochs": 1, "exact": "require"}
    if num is None:
        with pytest.raises(RuntimeError, match="XLA with inputs of unknown shape: x "):
            train(**options)
    else:
        train(**options)


class Initialize(Callback):
    """Initializes all local variables after each epoch, as callbacks with `tf.metrics` do."""

    def _setup_graph(self):
        self._op = tf.local_variables_initializer()

    def _trigger_epoch(self):
        self._op.run()


class PutBack(Callback):
    """Does two more steps after each epoch, and puts back all variables."""

    def _trigger_epoch(self):
        with kept_variables(self.trainer.sess):
            for _ in range(2):
                self.trainer.run_step()
        self.trainer.loop.global_step -= 2


@pytest.mark.slow
@pytest.mark.parametrize("last_step", [1, 12])
@pytest.mark.parametrize("make", [Initialize, PutBack, lambda: LearningRateFinder("lr", num_steps=20)])
def test_the_position_of_the_data_is_no_variable(tmp_path, make, last_step):
    """Whoever initializes or puts back variables does not change which datapoints count as used."""

    def train_queue(at):
        data = QueueInput(DataFromList([[np.float32(i)] for i in range(7)], shuffle=True))
        return train(make(), at, model=Scheduled(), data=data, exact="require")

    check_resumed(tmp_path, train_queue, last_step)


class Scheduled(Model):
    """Has a learning rate that callbacks set."""

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(tf.get_variable("lr", initializer=0.1, trainable=False))


def setters(second=0.2):
    """Return a schedule, and another callback that halves the learning rate after each epoch."""
    return [
        ScheduledHyperParamSetter("lr", [(1, 0.1), (4, second)]),
        HyperParamSetterWithFunc("lr", lambda epoch, value: value / 2),
    ]


@pytest.mark.slow
def test_a_schedule_keeps_what_another_callback_has_set(tmp_path, log_lines):
    """A schedule that is resumed does not replace a value that another callback has set; one that was changed does."""
    check_resumed(tmp_path, lambda at: train(at, before=setters(), model=Scheduled(), exact="require"), 12)
    logger.set_logger_dir(str(tmp_path / "changed"), action="d")
    train(At(12, stop), before=setters(), model=Scheduled())
    train(At(0, stop), before=setters(0.3), model=Scheduled(), epochs=3)
    assert any("setting lr to 0.1" in line for line in log_lines)
