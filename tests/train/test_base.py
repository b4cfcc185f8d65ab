"""train/trainer.py: the main loop, its order, counters and session."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.quadratic import QuadraticTrainer
from fakes.recording import RecordingCallback

from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Call, Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.moments import after_step, at_epoch_end, before_step
from tensorpack_lite.loop.trainer import find_step_ops
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator
from tensorpack_lite.tfutils.sessinit import DictRestore, JustCurrentSession
from tensorpack_lite.train.base import Trainer
from tensorpack_lite.train.exact.what_is_exact import begin_exact_resume
from tensorpack_lite.train.tower import TowerTrainer


class KeepsX(Callback):
    """Reads x in `after_train`, while the session is open."""

    def _after_train(self):
        self.x = float(self.trainer.sess.run(self.trainer.x))


class TestTraining:
    def test_closed_form(self, trainer, run):
        """Four steps, each halving the distance to 3, end at 3 - 3/16."""
        keep = KeepsX()
        run(trainer, keep)
        assert 3 - 3 / 16 == keep.x

    def test_each_phase_under_another_graph(self):
        """The loop and `find_tensor` use the graph of the session, whatever the default graph is."""

        class Finds(Callback):
            def _after_train(self):
                self.found = self.trainer.find_tensor("x")

        finds = Finds()
        with tf.Graph().as_default() as graph:
            trainer = QuadraticTrainer()
            trainer.setup_callbacks([finds], [])
            trainer.initialize(NewSessionCreator(), JustCurrentSession())
        trainer.main_loop(2, 1, 1)
        assert 2 == trainer.global_step
        assert graph is finds.found.graph
        assert [] == tf.get_default_graph().get_operations()

    def test_no_train_op(self, run):
        """Without `train_op`, the default `run_step` raises NotImplementedError."""
        with pytest.raises(NotImplementedError, match="has no train_op"):
            run(Trainer())

    def test_graph_can_grow_after_training(self, trainer, run):
        """After training, operations can be added to the graph again."""
        run(trainer)
        tf.constant(1.0)

    def test_graph_is_final_while_training(self, trainer, run):
        """From `before_train` on, the graph is finalized."""

        class Adds(Callback):
            def _before_train(self):
                tf.constant(1.0)

        with pytest.raises(RuntimeError, match="finalized"):
            run(trainer, Adds())

    def test_a_training_without_steps(self, trainer, run):
        """`train` without steps is an error, before anything is set up."""
        trace = RecordingCallback()
        with pytest.raises(ValueError, match="^Trainer: steps_per_epoch is 0, so nothing would be trained"):
            run(trainer, trace, steps_per_epoch=0)
        assert [] == trace.calls

    def test_no_steps(self, trainer):
        """`main_loop` without steps calls the other moments."""
        trace = RecordingCallback()
        trainer.setup_callbacks([trace], [])
        trainer.initialize(NewSessionCreator(), JustCurrentSession())
        trainer.main_loop(0, 1, 1)
        expected = [
            "setup_graph",
            "before_train",
            "before_epoch",
            *at_epoch_end(),
            "trigger",
            "after_train",
        ]
        assert expected == trace.calls

    def test_no_epochs(self, trainer, run):
        """A training without epochs calls only `before_train` and `after_train`."""
        trace = RecordingCallback()
        run(trainer, trace, starting_epoch=3, max_epoch=2)
        assert ["setup_graph", "before_train", "after_train"] == trace.calls


class TestOrder:
    def test_callback_order(self, trainer, run):
        """The order is: registered callbacks, that of lint, step counter, the user's, extra callbacks, monitors, `Monitors`."""
        registered, user, extra = (
            RecordingCallback("registered"),
            RecordingCallback("user"),
            RecordingCallback("extra"),
        )
        monitor = MonitorBase()
        trainer.register_callback(registered)
        run(trainer, user, extra_callbacks=[extra], monitors=[monitor])
        assert isinstance(trainer._callbacks, Callbacks)
        cbs = trainer._callbacks.cbs
        assert ["FirstEpoch", "MaintainStepCounter"] == [str(cb) for cb in cbs[1:3]]
        assert [registered, *cbs[1:3], user, extra, monitor, trainer.monitors] == cbs

    def test_moments_and_counters(self, trainer, run):
        """Each moment is called in order, with the documented values of the counters."""
        trace = RecordingCallback()
        run(trainer, trace)
        epoch = [
            "before_epoch",
            *[*before_step(), "before_run", "after_run", *after_step()] * 2,
            *at_epoch_end(),
            "trigger",
        ]
        assert ["setup_graph", "before_train", *epoch, *epoch, "after_train"] == trace.calls
        assert [(0, 0, -1)] == trace.seen_at("setup_graph") == trace.seen_at("before_train")
        assert [(1, 0, -1), (2, 2, 1)] == trace.seen_at("before_epoch")
        assert [(1, 0, 0), (1, 1, 1), (2, 2, 0), (2, 3, 1)] == trace.seen_at("before_run")
        assert [(1, 1, 0), (1, 2, 1), (2, 3, 0), (2, 4, 1)] == trace.seen_at("after_run")
        assert trace.seen_at("after_run") == trace.seen_at("trigger_step")
        for moment in at_epoch_end():
            assert [(1, 2, 1), (2, 4, 1)] == trace.seen_at(moment)
        assert [(2, 4, 1)] == trace.seen_at("after_train")

    def test_later_start(self, trainer, run):
        """If training starts with epoch 5, epoch_num is 0 in `setup_graph` and 4 in `before_train`."""
        trace = RecordingCallback()
        run(trainer, trace, starting_epoch=5, max_epoch=5)
        assert 0 == trace.seen_at("setup_graph")[0][0]
        assert 4 == trace.seen_at("before_train")[0][0]
        assert 5 == trace.seen_at("before_epoch")[0][0]

    def test_restored_step(self, trainer, run):
        """The step counter starts with the restored value, or with the value that a callback sets in `before_train`."""
        trace = RecordingCallback()

        class Sets(Callback):
            def _setup_graph(self):
                self.add = get_global_step_var().assign_add(100, read_value=False)

            def _before_train(self):
                self.add.run()

        run(trainer, trace, Sets(), session_init=DictRestore({"global_step": np.array(10)}), max_epoch=1)
        assert 10 == trace.seen_at("before_train")[0][1]
        assert 110 == trace.seen_at("before_run")[0][1]


class TestCallbacksOfTrainer:
    def test_find_callbacks(self, trainer, run):
        """find_callbacks returns the callbacks of a class, subclasses included, in order."""
        one, two, found = RecordingCallback("one"), RecordingCallback("two"), []
        search = CallbackFactory(lambda self: found.append(self.trainer.find_callbacks(RecordingCallback)))
        run(trainer, one, search, two, max_epoch=1)
        assert [[one, two]] == found
        assert search in trainer.find_callbacks(Callback)

    def test_current_call(self, trainer, run):
        """During training, the trainer reports the callback that is being called and whether its session is running."""
        seen = {}

        class Asks(Callback):
            def _before_run(self, ctx):
                seen["run"] = (self.trainer.current_call, self.trainer.is_in_run)

            def _trigger_epoch(self):
                self.trainer.hooked_sess.run([])
                seen["epoch"] = (self.trainer.current_call, self.trainer.is_in_run)

        asks = Asks()
        run(trainer, asks, max_epoch=1)
        assert (Call(asks, "_trigger_epoch"), True) == seen["run"]  # the callback in the list counts
        assert (Call(asks, "_trigger_epoch"), False) == seen["epoch"]
        assert (None, False) == (trainer.current_call, trainer.is_in_run)


class TestSession:
    def test_not_chief_ignores_session_init(self, trainer, run, log_lines):
        """A process that is not the chief ignores `session_init`, and does not log that."""
        trainer.is_chief = False
        keep = KeepsX().set_chief_only(False)
        run(trainer, keep, session_init=DictRestore({"x": np.float32(100)}), max_epoch=0)
        assert 0.0 == keep.x
        assert not [line for line in log_lines if "session_init" in line or "chief" in line]

    def test_reused_session(self, trainer, run):
        """A session of the user is used unchanged."""
        trainer.setup_callbacks([], [])
        session = tf.Session()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        trainer.initialize(ReuseSessionCreator(session), JustCurrentSession())
        assert session is trainer.sess
        trainer.main_loop(1, 1, 1)

    def test_initialize_hooks_can_be_overridden(self, run):
        """A subclass may create another hooked session."""

        class Mine(QuadraticTrainer):
            def initialize_hooks(self):
                super().initialize_hooks()
                self.made = True

        assert run(Mine()).made

    def test_trainer_is_a_weak_reference(self, trainer, run):
        """`callback.trainer` is a weak proxy, which `isinstance` takes for the trainer."""
        trace = RecordingCallback()
        run(trainer, trace, session_creator=NewSessionCreator())
        assert isinstance(trace.trainer, QuadraticTrainer)
        assert not isinstance(trace.trainer, TowerTrainer)
        assert type(trace.trainer).__name__ == "weakproxy" or "Proxy" in type(trace.trainer).__name__


class TestFindTensor:
    def test_tensor_operation_variable(self, trainer, sess):
        """A name means a tensor, or an operation without outputs; the name of a variable means its value."""
        tf.constant(1.0, name="c")
        sess.run(tf.global_variables_initializer())
        assert ["c:0", "c:0"] == [trainer.find_tensor(name).name for name in ("c", "c:0")]
        assert trainer.find_tensor("train_op") is trainer.train_op
        assert 0.0 == sess.run(trainer.find_tensor("x"))

    def test_unknown(self, trainer):
        """An unknown name raises KeyError, which shows the nearest names."""
        with pytest.raises(KeyError, match="'train_opp' is not in the graph. The nearest names are: train_op"):
            trainer.find_tensor("train_opp")


class InTurn(Trainer):
    """A trainer that runs two operations in a step, one of which draws a random number that no checkpoint has."""

    def __init__(self, is_declared):
        super().__init__()
        weight = tf.get_variable("weight", initializer=0.0, use_resource=True)
        ops = [
            weight.assign_add(1.0, read_value=False),
            weight.assign(tf.random_uniform([]), read_value=False),
        ]
        self.run_both = lambda: [self.hooked_sess.run(op) for op in ops]
        if is_declared:
            self.step_ops = ops
        else:
            self.players = {"first": ops[:1], "second": ops[1:]}

    def run_step(self):
        self.run_both()


@pytest.mark.parametrize("is_declared", [True, False])
def test_the_operations_of_a_step(run, is_declared):
    """A trainer without `train_op` declares what its steps run, or keeps it in attributes: exact resume examines it."""
    with tf.Graph().as_default():
        begin_exact_resume(JustCurrentSession(), "require")
        trainer = InTurn(is_declared)
        assert 2 == len(find_step_ops(trainer))
        with pytest.raises(RuntimeError, match="NOT exact: 1 random operations .*: random_uniform/RandomUniform"):
            run(trainer)


def test_train_op_is_what_a_step_runs():
    """The default of `step_ops` is `train_op`, and nothing for a trainer that has none."""
    with tf.Graph().as_default():
        trainer = QuadraticTrainer()
        assert [trainer.train_op] == find_step_ops(trainer)
        assert [] == find_step_ops(Trainer())
