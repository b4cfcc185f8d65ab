"""StagingInput: datapoints are kept ready on each device."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.inputs import Numbers, driven

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source import FeedInput, QueueInput, StagingInput, TensorInput, remap_input_source
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.hooks import CallbackToHook
from tensorpack_lite.loop.session import HookedSession
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.tower.context import TrainTowerContext
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import NoOpTrainer

SIGNATURE = [TensorSpec([2], tf.float32, "x")]


def counting():
    """Return an input whose n-th datapoint is [n, n], from 1, and the variable that counts them."""
    taken = tf.get_variable("taken", initializer=0.0, use_resource=True)
    return TensorInput(lambda: [tf.fill([2], taken.assign_add(1.0))]), taken


class Towers:
    """A running StagingInput with several towers."""

    def __init__(self, num_towers=2, **kwargs):
        inner, self.taken = counting()
        self.source = StagingInput(inner, **kwargs)
        callbacks = Callbacks(self.source.setup(SIGNATURE))
        self.tensors = []
        for index in range(num_towers):
            with TrainTowerContext(f"tower{index}", index=index, total=num_towers):
                self.tensors += self.source.get_input_tensors()
        callbacks.setup_graph(None)
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())
        self.hooked = HookedSession(self.session, callbacks.get_hooks())

    def next(self):
        return [int(value[0]) for value in self.hooked.run(self.tensors)]

    def num_taken(self):
        return int(self.session.run(self.taken))

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.session.close()


@pytest.mark.parametrize("nr_stage", [1, 2, 5])
class TestAnyNumberOfStages:
    def test_order(self, nr_stage):
        """Towers take datapoints in turn, none skipped or repeated, and nr_stage datapoints are kept ready."""
        with Towers(2, nr_stage=nr_stage) as towers:
            assert [[1, 2], [3, 4], [5, 6]] == [towers.next() for _ in range(3)]
            assert 2 * (3 + nr_stage) == towers.num_taken()

    def test_nothing_is_taken_before_it_is_needed(self, nr_stage):
        """A run that does not need the input neither fills the staging areas nor takes from them."""
        with Towers(2, nr_stage=nr_stage) as towers:
            towers.hooked.run([])
            towers.hooked.run(tf.constant(1.0))
            assert 0 == towers.num_taken()
            assert [1, 2] == towers.next()
            before = towers.num_taken()
            towers.hooked.run([])
            assert before == towers.num_taken()
            assert [3, 4] == towers.next()

    def test_towers_stay_together(self, nr_stage):
        """A run that needs the input of one tower takes a datapoint of every tower."""
        with Towers(3, nr_stage=nr_stage) as towers:
            towers.hooked.run(towers.tensors[1])
            assert [4, 5, 6] == towers.next()

    def test_raw_runs_take_nothing(self, nr_stage):
        """Runs of the raw session see the datapoint of the next step, however many there are, and the next step does not wait."""
        with Towers(2, nr_stage=nr_stage) as towers:
            assert [1, 2] == towers.next()
            for _ in range(nr_stage + 2):
                assert 3 == int(towers.session.run(towers.tensors[0])[0])
            assert [[3, 4], [5, 6]] == [towers.next(), towers.next()]
            assert 2 * (3 + nr_stage) == towers.num_taken()

    def test_a_callback_needs_the_input(self, nr_stage):
        """A run in which only a callback's fetches need the input stages new datapoints, too, and the order is kept."""
        with Towers(2, nr_stage=nr_stage) as towers:
            hook = Fetching(towers.tensors[1])
            staging = CallbackToHook(towers.source.get_callbacks()[-1])
            towers.hooked = HookedSession(towers.session, [staging, CallbackToHook(hook)])
            step = tf.constant(1.0)
            for fetches in [step, step, [], []]:
                towers.hooked.run(fetches)
            assert [9, 10] == towers.next()
            assert [2, 4, 6, 8, 10] == hook.values
            assert 2 * (5 + nr_stage) == towers.num_taken()


@pytest.mark.parametrize("nr_stage", [1, 3])
def test_raw_runs_before_the_first_step(nr_stage):
    """Before the first step, raw runs see its datapoints: they fill the staging areas, and take nothing."""
    source = StagingInput(QueueInput(Numbers(5)), nr_stage=nr_stage)
    with driven(source, SIGNATURE) as run:
        run.session.run(tf.constant(1.0))
        assert source.is_empty
        options = tf.RunOptions(timeout_in_ms=60_000)  # it waited without end
        for fetches in [run.tensors, {"a": run.tensors[0].name}, run.tensors]:
            run.session.run(fetches, options=options)
            assert not source.is_empty
        assert 0 == int(run.tensors[0].eval()[0])
        assert [0, 1, 2, 3, 4, 0] == [int(run.next()[0][0]) for _ in range(6)]


class RunsEarly(Callback):
    """Evaluates tensors of the model at the moments before the first step."""

    def __init__(self):
        self.values = []

    def _setup_graph(self):
        self.fetches = 10 * tf.get_default_graph().get_tensor_by_name("tower1/mean:0")

    def _evaluate(self):
        options = tf.RunOptions(timeout_in_ms=60_000)
        self.values.append(float(self.trainer.sess.run(self.fetches, options=options)))


class RunsBeforeTrain(RunsEarly):
    def _before_train(self):
        self._evaluate()


class RunsBeforeEpoch(RunsEarly):
    def _before_epoch(self):
        self._evaluate()


@pytest.mark.parametrize("callback", [RunsBeforeTrain, RunsBeforeEpoch])
def test_a_callback_runs_before_the_first_step(callback):
    """In `_before_train` and `_before_epoch`, `trainer.sess.run` evaluates tensors of the model and what callbacks made of them."""

    def build(x):
        return tf.reduce_mean(x, name="mean") * tf.get_variable("w", initializer=1.0)

    trainer, early = SyncMultiGPUTrainerReplicated([0, 1], mode="cpu"), callback()
    source = StagingInput(QueueInput(Numbers(5)))
    trainer.setup_graph(SIGNATURE, source, build, lambda: tf.train.GradientDescentOptimizer(0.1))
    trainer.train_with_defaults(callbacks=[early], monitors=[], steps_per_epoch=2, max_epoch=1)
    assert 2 == trainer.loop.global_step
    assert [10.0] == early.values  # the datapoint of the second tower


class Fetching(Callback):
    """Fetches a tensor in every run."""

    def __init__(self, tensor):
        self.args, self.values = tf.train.SessionRunArgs(tensor), []

    def _before_run(self, ctx):
        return self.args

    def _after_run(self, ctx, run_values):
        self.values.append(int(run_values.results[0]))


def test_steps_without_the_input():
    """NoOpTrainer fetches nothing; a moving summary of the input alone keeps the areas full."""

    def build(x):
        mean = tf.reduce_mean(x, name="mean")
        add_moving_summary(mean)
        return mean * tf.get_variable("w", initializer=1.0)

    trainer = NoOpTrainer()
    source = StagingInput(QueueInput(Numbers(5)))
    trainer.setup_graph(SIGNATURE, source, build, lambda: tf.train.GradientDescentOptimizer(0.1))
    trainer.train_with_defaults(monitors=[], steps_per_epoch=5, max_epoch=2)
    assert 10 == trainer.loop.global_step


def test_one_thread_is_enough():
    """With one thread per pool, no operation waits for another one that needs its thread."""
    with Towers(8, nr_stage=1) as towers:
        config = tf.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            towers.hooked = HookedSession(session, [])
            put, remove = towers.source._puts, towers.source._removals
            session.run(put)
            for _ in range(3):
                session.run([*put, *remove])


def test_dependencies_by_name():
    """Fetches may be names or structures."""
    with Towers(1) as towers:
        doubled = tf.multiply(towers.tensors[0], 2.0, name="doubled")
        assert [2, 2] == towers.hooked.run("doubled:0").tolist()
        assert [4, 4] == towers.hooked.run({"a": [doubled]})["a"][0].tolist()


def test_names_and_shapes():
    """The operations of each tower are in its scope, and tensors keep their static shapes."""
    with Towers(2) as towers:
        names = [tensor.name for tensor in towers.tensors]
        assert ["tower0/StagingInput/StagingArea_get:0", "tower1/StagingInput/StagingArea_get:0"] == names
        assert [[2], [2]] == [tensor.shape.as_list() for tensor in towers.tensors]
        graph = tf.get_default_graph()
        assert graph.get_operation_by_name("StagingInput/group_deps")
        assert graph.get_operation_by_name("StagingCallback/unstage_all")


def test_device():
    """Datapoints are staged on the tower's device, or on the given one."""
    for given, expected in [(None, "/device:GPU:1"), ("/cpu:0", "/device:CPU:0")]:
        with tf.Graph().as_default():
            source = StagingInput(counting()[0], device=given)
            source.setup(SIGNATURE)
            with tf.device("/gpu:1"):
                (tensor,) = source.get_input_tensors()
        assert expected == tensor.op.device


def test_around_a_queue():
    """The datapoints of a DataFlow arrive in order; the callbacks are those of the queue, then that of the staging."""
    source = StagingInput(QueueInput(Numbers(5)), nr_stage=2)
    with driven(source, SIGNATURE) as run:
        assert [0, 1, 2, 3, 4, 0] == [int(run.next()[0][0]) for _ in range(6)]
    assert "_StagingCallback" in type(source.get_callbacks()[-1]).__name__
    assert 5 == source.size()
    assert not any(callback.chief_only for callback in source.get_callbacks())
    assert source._input.get_callbacks() == source._input.get_callbacks()  # the inner list did not grow
    assert len(source._input.get_callbacks()) + 1 == len(source.get_callbacks())


@pytest.mark.parametrize("size", [0, 1, 3])
def test_errors_of_the_data(size):
    """Errors of the data are raised, whether the areas are being filled or already full."""
    source = StagingInput(QueueInput(Numbers(size, error=ZeroDivisionError("mine"))), nr_stage=2)
    with driven(source, SIGNATURE) as run, pytest.raises(ZeroDivisionError, match="mine"):
        for _ in range(5):
            run.next()


def test_a_sparse_tensor():
    """A SparseTensor raises TypeError, which explains what to do."""
    source = StagingInput(TensorInput(lambda: [tf.SparseTensor([[0]], [1.0], [2])]))
    source.setup(SIGNATURE)
    with pytest.raises(TypeError, match=r"expected a tensor, got SparseTensor\)\. Pass its parts as separate inputs"):
        source.get_input_tensors()


def test_placeholders_are_not_staged():
    """The placeholders of a remapped input are fed to the run that uses them."""
    signature = [TensorSpec([], tf.float32, "fed"), *SIGNATURE]
    source = StagingInput(remap_input_source(QueueInput(Numbers(3)), ["x"]))
    with driven(source, signature) as run:
        assert "fed:0" == run.tensors[0].name
        for n in range(4):
            fed, x = run.hooked.run(list(run.tensors), feed_dict={run.tensors[0]: 10.0 + n})
            assert (10 + n, n % 3) == (int(fed), int(x[0]))


def test_reference_variables_are_copied(sess):
    """A reference variable is staged by its value."""
    variable = tf.get_variable("v", initializer=tf.ones([2]), use_resource=False)
    source = StagingInput(TensorInput(lambda: [variable._ref() if hasattr(variable, "_ref") else variable]))
    source.setup(SIGNATURE)
    (tensor,) = source.get_input_tensors()
    sess.run(variable.initializer)
    sess.run(source._puts)
    np.testing.assert_array_equal([1, 1], sess.run(tensor))


class TestErrors:
    def test_fed_inputs(self):
        """An input with feeds raises a TypeError with advice."""
        with pytest.raises(
            TypeError, match=r"expected an input without feeds, got FeedInput\. Use StagingInput\(QueueInput"
        ):
            StagingInput(FeedInput(Numbers(3)))

    def test_twice(self):
        """A StagingInput around a StagingInput raises a TypeError that points to nr_stage."""
        with pytest.raises(TypeError, match="Increase nr_stage"):
            StagingInput(StagingInput(QueueInput(Numbers(3))))

    def test_no_stage(self):
        """nr_stage=0 raises ValueError."""
        with pytest.raises(ValueError, match="nr_stage is too small"):
            StagingInput(QueueInput(Numbers(3)), nr_stage=0)
