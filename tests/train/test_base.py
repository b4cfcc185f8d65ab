"""train/base.py: the loop, its order, its counters, its ends."""

from __future__ import annotations

from unittest import mock

import pytest
from fakes.quadratic import QuadraticTrainer
from fakes.recording import RecordingCallback

from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator, ReuseSessionCreator
from tensorpack_lite.tfutils.sessinit import DictRestore, JustCurrentSession, SessionInit
from tensorpack_lite.train.base import Trainer
from tensorpack_lite.train.tower import TowerTrainer
from tensorpack_lite.utils import logger


class KeepsX(Callback):
    """Reads x after training, while the session is open."""

    def _after_train(self):
        self.x = float(self.trainer.sess.run(self.trainer.x))


class TestTraining:
    def test_closed_form(self, trainer, run):
        """Four steps of halving from 0 to 3 end at 3 - 3/16."""
        keep = KeepsX()
        run(trainer, keep)
        assert 3 - 3 / 16 == keep.x

    def test_counts(self, trainer, run):
        """Two epochs of two steps are four steps."""
        run(trainer)
        assert (4, 2, 1) == (trainer.global_step, trainer.epoch_num, trainer.local_step)
        assert (2, 1, 2) == (trainer.steps_per_epoch, trainer.starting_epoch, trainer.max_epoch)

    def test_run_step_with_several_runs(self, run):
        """run_step may run the hooked session several times; global_step counts the runs."""

        class Twice(QuadraticTrainer):
            def run_step(self):
                self.hooked_sess.run(self.train_op)
                self.hooked_sess.run(self.train_op)

        trace = RecordingCallback()
        trainer = run(Twice(), trace, steps_per_epoch=3, max_epoch=1)
        assert 6 == trainer.global_step
        assert 6 == trace.calls.count("before_run")
        assert 3 == trace.calls.count("trigger_step")

    def test_no_train_op(self, run):
        """Without a train_op, run_step must be overridden."""
        with pytest.raises(NotImplementedError, match="has no train_op"):
            run(Trainer())

    def test_session_closed_afterwards(self, trainer, run):
        """After training the session is closed; what monitors keep can be read."""

        class Put(Callback):
            def _trigger(self):
                self.trainer.monitors.put_scalar("stat", self.epoch_num)

        run(trainer, Put())
        assert 2 == trainer.monitors.get_latest("stat")
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(tf.no_op())

    def test_graph_can_grow_after_training(self, trainer, run):
        """When training is over the graph is open again."""
        run(trainer)
        tf.constant(1.0)

    def test_graph_is_final_while_training(self, trainer, run):
        """Nothing can be added to the graph from before_train on."""

        class Adds(Callback):
            def _before_train(self):
                tf.constant(1.0)

        with pytest.raises(RuntimeError, match="finalized"):
            run(trainer, Adds())

    def test_no_steps(self, trainer, run):
        """With no steps an epoch still has its moments."""
        trace = RecordingCallback()
        run(trainer, trace, steps_per_epoch=0, max_epoch=1)
        expected = [
            "setup_graph",
            "before_train",
            "before_epoch",
            "after_epoch",
            "trigger_epoch",
            "trigger",
            "after_train",
        ]
        assert expected == trace.calls

    def test_no_epochs(self, trainer, run):
        """With no epochs training starts and ends."""
        trace = RecordingCallback()
        run(trainer, trace, starting_epoch=3, max_epoch=2)
        assert ["setup_graph", "before_train", "after_train"] == trace.calls

    def test_same_numbers_again(self, run):
        """The same training gives the same numbers to the last bit."""
        results = []
        for _ in range(2):
            keep = KeepsX()
            with tf.Graph().as_default():
                run(QuadraticTrainer(), keep, steps_per_epoch=7)
            results.append(keep.x)
        assert results[0] == results[1]


class TestOrder:
    def test_callback_order(self, trainer, run):
        """Registered ones, the step counter, the user's, extra ones, monitors, the group of monitors."""
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
        assert "MaintainStepCounter" == str(cbs[1])
        assert [registered, cbs[1], user, extra, monitor, trainer.monitors] == cbs

    def test_default_order(self, trainer):
        """The defaults come in the order that scripts rely on."""
        trainer.train_with_defaults(callbacks=[RecordingCallback()], steps_per_epoch=1, max_epoch=1)
        expected = [
            "MaintainStepCounter",
            "RecordingCallback",
            "MovingAverageSummary",
            "ProgressBar",
            str(trainer._callbacks.cbs[4]),
            "RunUpdateOps",
            "TFEventWriter",
            "JSONWriter",
            "ScalarPrinter",
            "Monitors",
        ]
        assert expected == [str(cb) for cb in trainer._callbacks.cbs]
        assert "MergeAllSummaries" in expected[4]

    def test_moments_and_counters(self, trainer, run):
        """Each moment comes in its order and sees the counters of the contract's table."""
        trace = RecordingCallback()
        run(trainer, trace)
        epoch = [
            "before_epoch",
            *["before_run", "after_run", "trigger_step"] * 2,
            "after_epoch",
            "trigger_epoch",
            "trigger",
        ]
        assert ["setup_graph", "before_train", *epoch, *epoch, "after_train"] == trace.calls
        assert [(0, 0, -1)] == trace.seen_at("setup_graph") == trace.seen_at("before_train")
        assert [(1, 0, -1), (2, 2, 1)] == trace.seen_at("before_epoch")
        assert [(1, 0, 0), (1, 1, 1), (2, 2, 0), (2, 3, 1)] == trace.seen_at("before_run")
        assert [(1, 1, 0), (1, 2, 1), (2, 3, 0), (2, 4, 1)] == trace.seen_at("after_run")
        assert trace.seen_at("after_run") == trace.seen_at("trigger_step")
        assert [(1, 2, 1), (2, 4, 1)] == trace.seen_at("after_epoch") == trace.seen_at("trigger_epoch")
        assert [(2, 4, 1)] == trace.seen_at("after_train")

    def test_counters_of_earlier_callbacks(self, trainer, run):
        """A callback before the step counter sees the old step in after_run."""
        early = RecordingCallback()
        trainer.register_callback(early)
        run(trainer, max_epoch=1)
        assert [(1, 0, 0), (1, 1, 1)] == early.seen_at("after_run")

    def test_later_start(self, trainer, run):
        """A training that starts at epoch 5 has epoch 0 in setup_graph and 4 in before_train."""
        trace = RecordingCallback()
        run(trainer, trace, starting_epoch=5, max_epoch=5)
        assert 0 == trace.seen_at("setup_graph")[0][0]
        assert 4 == trace.seen_at("before_train")[0][0]
        assert 5 == trace.seen_at("before_epoch")[0][0]

    def test_restored_step(self, trainer, run):
        """The step counter starts from the restored value, and from what a callback sets in before_train."""
        trace = RecordingCallback()

        class Sets(Callback):
            def _setup_graph(self):
                self.add = get_global_step_var().assign_add(100, read_value=False)

            def _before_train(self):
                self.add.run()

        import numpy as np

        run(trainer, trace, Sets(), session_init=DictRestore({"global_step": np.array(10)}), max_epoch=1)
        assert 10 == trace.seen_at("before_train")[0][1]
        assert 110 == trace.seen_at("before_run")[0][1]


ENDS = [StopTraining("enough"), tf.errors.OutOfRangeError(None, None, "no more data")]
ERRORS = [ValueError("mine"), KeyboardInterrupt(), StopIteration("over")]
DURING = [
    "before_train",
    "before_epoch",
    "before_run",
    "after_run",
    "trigger_step",
    "after_epoch",
    "trigger_epoch",
]


class TestEnds:
    @pytest.mark.parametrize("moment", DURING)
    @pytest.mark.parametrize("end", ENDS, ids=lambda e: type(e).__name__)
    def test_quiet_end(self, trainer, run, moment, end):
        """StopTraining and OutOfRangeError end training quietly; every callback gets after_train, once."""
        log = []
        run(
            trainer,
            RecordingCallback("a", log=log),
            RecordingCallback("b", moment, end, log=log),
            RecordingCallback("c", log=log),
        )
        assert ["a", "b", "c"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    @pytest.mark.parametrize("moment", DURING)
    @pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
    def test_error(self, trainer, run, moment, error):
        """Anything else reaches the caller as the same object, after after_train of all callbacks."""
        log = []
        with pytest.raises(type(error)) as raised:
            run(
                trainer,
                RecordingCallback("a", log=log),
                RecordingCallback("b", moment, error, log=log),
                RecordingCallback("c", log=log),
            )
        assert raised.value is error
        assert ["a", "b", "c"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    def test_error_in_setup(self, trainer, run):
        """An error before the session exists goes straight to the caller."""
        with pytest.raises(ValueError, match="mine"):
            run(trainer, RecordingCallback("a", "setup_graph", ValueError("mine")))

    def test_interrupted_epoch(self, trainer, run):
        """An epoch that is broken off has no end of epoch."""
        trace = RecordingCallback("a", "trigger_step", StopTraining(), nth=2)
        run(trainer, trace, steps_per_epoch=3)
        assert "after_epoch" not in trace.calls
        assert 2 == trainer.global_step

    def test_stop_in_trigger_epoch_skips_later_callbacks(self, trainer, run):
        """Callbacks after the one that stops don't get that trigger_epoch."""
        log = []
        run(
            trainer,
            RecordingCallback("a", "trigger_epoch", StopTraining(), log=log),
            RecordingCallback("b", log=log),
        )
        assert ["a"] == [name for name, m, *_ in log if m == "trigger_epoch"]

    def test_request_stop(self, trainer, run):
        """ctx.request_stop lets the step finish and ends before the next one."""

        class Requests(Callback):
            def _after_run(self, ctx, run_values):
                ctx.request_stop()

        trace = RecordingCallback()
        run(trainer, Requests(), trace)
        assert (1, 1) == (trainer.global_step, trace.calls.count("trigger_step"))
        assert "after_epoch" not in trace.calls
        assert "after_train" == trace.calls[-1]

    def test_error_in_after_train(self, trainer, run):
        """If training had no error, the first of after_train is raised, and the session is closed."""
        log = []
        with pytest.raises(ValueError, match="first"):
            run(
                trainer,
                RecordingCallback("a", "after_train", ValueError("first"), log=log),
                RecordingCallback("b", "after_train", ValueError("second"), log=log),
            )
        assert ["a", "b"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    @pytest.mark.parametrize(
        "error", [KeyboardInterrupt(), SystemExit(3), StopIteration("mine")], ids=lambda e: type(e).__name__
    )
    def test_unusual_error_in_after_train(self, trainer, run, error):
        """Ctrl-C in the end of one callback, and the like, takes their end from no other one; it is raised as it is."""
        log = []
        with pytest.raises(type(error)) as raised:
            run(
                trainer,
                RecordingCallback("a", "after_train", error, log=log),
                RecordingCallback("b", log=log),
            )
        assert raised.value is error
        assert ["a", "b"] == [name for name, m, *_ in log if m == "after_train"]
        assert trainer.hooked_sess.should_stop()

    def test_end_in_after_train(self, trainer, run):
        """To ask for the end at the end changes nothing."""
        log = []
        run(
            trainer,
            RecordingCallback("a", "after_train", StopTraining(), log=log),
            RecordingCallback("b", log=log),
        )
        assert ["a", "b"] == [name for name, m, *_ in log if m == "after_train"]

    def test_error_of_training_wins(self, trainer, run):
        """Training's own error is raised even if after_train fails too."""
        with pytest.raises(KeyError, match="training"):
            run(
                trainer,
                RecordingCallback("a", "trigger_step", KeyError("training")),
                RecordingCallback("b", "after_train", ValueError("later")),
            )

    def test_error_after_a_quiet_end(self, trainer, run):
        """An error in after_train is raised after a quiet end too."""
        with pytest.raises(ValueError, match="later"):
            run(
                trainer,
                RecordingCallback("a", "trigger_step", StopTraining()),
                RecordingCallback("b", "after_train", ValueError("later")),
            )

    def test_error_in_close(self, run):
        """An error while the session is closed is raised, unless training had one of its own."""

        class ClosesBadly(QuadraticTrainer):
            def initialize_hooks(self):
                super().initialize_hooks()
                close = self.hooked_sess.close

                def close_and_fail():
                    close()
                    raise ValueError("closing")

                self.hooked_sess.close = close_and_fail

        with pytest.raises(ValueError, match="closing"):
            run(ClosesBadly())
        with tf.Graph().as_default(), pytest.raises(KeyError, match="training"):
            run(ClosesBadly(), RecordingCallback("a", "trigger_step", KeyError("training")))

    def test_failure_is_logged_with_step(self, trainer, run):
        """The log says at which step training failed."""
        with mock.patch.object(logger, "error") as log, pytest.raises(ValueError, match="mine"):
            run(trainer, RecordingCallback("a", "trigger_step", ValueError("mine"), nth=3))
        assert "Training failed at global_step=3: ValueError: mine" == log.call_args[0][0]

    def test_session_open_in_after_train(self, trainer, run):
        """after_train can still use the session, which is the default one."""

        class Reads(Callback):
            def _after_train(self):
                self.same = tf.get_default_session() is self.trainer.sess
                self.value = self.trainer.sess.run(self.trainer.x)

        reads = Reads()
        run(trainer, reads, RecordingCallback("a", "before_train", StopTraining()))
        assert (True, 0.0) == (reads.same, reads.value)


class TestMisuse:
    def test_config_passed_to_a_trainer(self):
        """The old way of calling a trainer names both ways out."""
        with pytest.raises(TypeError, match=r"launch_train_with_config.*trainv1"):
            Trainer(object())
        with pytest.raises(TypeError, match="takes no arguments here"):
            TowerTrainer(config=object())

    def test_session_init_that_fails(self, trainer, run):
        """An error of session_init reaches the user as it is; the session is closed, its queue runners are stopped."""

        class Fails(SessionInit):
            def _run_init(self, sess):
                raise ZeroDivisionError("planted")

        tf.train.input_producer(tf.constant([1.0, 2.0]))
        with pytest.raises(ZeroDivisionError, match="planted"):
            run(trainer, session_init=Fails())
        assert trainer.hooked_sess.should_stop()
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(trainer.train_op)

    def test_hooks_that_cannot_be_made(self, run):
        """An error before there is a hooked session closes the raw one."""

        class Fails(QuadraticTrainer):
            def initialize_hooks(self):
                raise ZeroDivisionError("planted")

        trainer = Fails()
        with pytest.raises(ZeroDivisionError, match="planted"):
            run(trainer)
        with pytest.raises(RuntimeError, match="closed"):
            trainer.sess.run(trainer.train_op)

    def test_training_twice(self, trainer, run):
        """A trainer trains once."""
        run(trainer)
        with pytest.raises(
            RuntimeError, match=r"Trainer\.setup_callbacks: may be called only once.*Make a new one"
        ):
            run(trainer)

    def test_register_something_else(self, trainer):
        """Only callbacks can be registered."""
        with pytest.raises(TypeError, match="takes a Callback or a list of them, got int"):
            trainer.register_callback(3)

    def test_register_late(self, trainer, run):
        """After setup it is too late to register."""
        run(trainer)
        with pytest.raises(RuntimeError, match="comes too late"):
            trainer.register_callback(Callback())

    def test_register_list(self, trainer):
        """A list is registered in order and gives None."""
        one, two = Callback(), Callback()
        assert trainer.register_callback([one, two]) is None
        assert [one, two] == trainer._callbacks
        assert trainer.register_callback(Callback()) is True

    def test_not_chief(self, trainer):
        """A process that is not the chief leaves chief-only callbacks out, with a warning."""
        trainer.is_chief = False
        with mock.patch.object(logger, "warning") as log:
            assert trainer.register_callback(Callback()) is False
        assert "Callback is chief-only" in log.call_args[0][0]
        assert trainer.register_callback(Callback().set_chief_only(False)) is True

    def test_monitor_among_callbacks(self, trainer, run):
        """A monitor must be passed as a monitor."""
        with pytest.raises(TypeError, match=r"is among the callbacks. Pass it in monitors=\[...\]"):
            run(trainer, MonitorBase())

    @pytest.mark.parametrize("name", ["callbacks", "monitors"])
    def test_not_a_list(self, trainer, name):
        """Callbacks and monitors come as lists."""
        kwargs = {"callbacks": [], "monitors": [], name: ()}
        with pytest.raises(TypeError, match=f"Trainer: {name}: takes a list, got tuple"):
            trainer.setup_callbacks(**kwargs)

    def test_no_steps_per_epoch(self, trainer):
        """steps_per_epoch must be given."""
        with pytest.raises(ValueError, match="steps_per_epoch is missing"):
            trainer.train_with_defaults(callbacks=[])

    def test_session_creator_of_another_kind(self, trainer, run):
        """The session comes from a SessionCreator."""
        with pytest.raises(TypeError, match=r"takes a tf.train.SessionCreator, got int"):
            run(trainer, session_creator=3)

    def test_session_init_of_another_kind(self, trainer, run):
        """Values come from a SessionInit."""
        with pytest.raises(TypeError, match=r"takes a SessionInit, got str. Use SmartInit"):
            run(trainer, session_init="model")

    def test_ranges_in_setup(self, trainer, run):
        """The ranges are not known while the graph is built."""

        class Asks(Callback):
            def _setup_graph(self):
                return self.trainer.steps_per_epoch

        with pytest.raises(AttributeError, match="known from before_train on"):
            run(trainer, Asks())


class TestSession:
    def test_not_chief_ignores_session_init(self, trainer, run):
        """Only the chief restores."""
        import numpy as np

        trainer.is_chief = False
        keep = KeepsX().set_chief_only(False)
        with mock.patch.object(logger, "warning") as log:
            run(trainer, keep, session_init=DictRestore({"x": np.float32(100)}), steps_per_epoch=0)
        assert 0.0 == keep.x
        assert any("session_init is ignored" in str(call) for call in log.call_args_list)

    def test_not_chief_without_session_init(self, trainer, run):
        """Where there is nothing to restore, nothing is said of it."""
        trainer.is_chief = False
        with mock.patch.object(logger, "warning") as log:
            run(trainer)
        log.assert_not_called()

    def test_reused_session(self, trainer, run):
        """A session of the user's is used as it is."""
        trainer.setup_callbacks([], [])
        session = tf.Session()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        trainer.initialize(ReuseSessionCreator(session), JustCurrentSession())
        assert session is trainer.sess
        trainer.main_loop(1, 1, 1)

    def test_initialize_hooks_can_be_overridden(self, run):
        """A subclass may make its own hooked session."""

        class Mine(QuadraticTrainer):
            def initialize_hooks(self):
                super().initialize_hooks()
                self.made = True

        assert run(Mine()).made

    def test_trainer_is_a_weak_reference(self, trainer, run):
        """Callbacks see the trainer through a proxy that still has its type."""
        trace = RecordingCallback()
        run(trainer, trace, session_creator=NewSessionCreator())
        assert isinstance(trace.trainer, QuadraticTrainer)
        assert not isinstance(trace.trainer, TowerTrainer)
        assert type(trace.trainer).__name__ == "weakproxy" or "Proxy" in type(trace.trainer).__name__


class TestFindTensor:
    def test_tensor_operation_variable(self, trainer, sess):
        """A name means a tensor, or an operation that has none; a variable's means its value."""
        tf.constant(1.0, name="c")
        sess.run(tf.global_variables_initializer())
        assert ["c:0", "c:0"] == [trainer.find_tensor(name).name for name in ("c", "c:0")]
        assert trainer.find_tensor("train_op") is trainer.train_op
        assert 0.0 == sess.run(trainer.find_tensor("x"))

    def test_unknown(self, trainer):
        """An unknown name is a KeyError with the nearest names."""
        with pytest.raises(
            KeyError, match="'train_opp' is not in the graph. The nearest names are: train_op"
        ):
            trainer.find_tensor("train_opp")


def test_step_counter_order(run):
    """What reads global_step in a step sees the value before that step's increment, every time."""

    class Decayed(Trainer):
        def __init__(self):
            super().__init__()
            step = get_global_step_var()
            self.seen = tf.get_variable("seen", shape=[], dtype=tf.int64, use_resource=True)
            self.train_op = self.seen.assign(step * 10, read_value=False)

    class Collect(Callback):
        def __init__(self):
            self.values = []

        def _trigger_step(self):
            self.values.append(int(self.trainer.sess.run(self.trainer.seen)))

    collect = Collect()
    run(Decayed(), collect, steps_per_epoch=200, max_epoch=1)
    assert [10 * step for step in range(200)] == collect.values
