"""The step counter, the progress bar, TensorPrinter and SessionRunTimeout."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.old_scripts import complete_for_old_scripts
from fakes.recording import RecordingCallback
from fakes.trainers import CountingTrainer, ScalingTrainer, run

from tensorpack_lite.callbacks import steps as steps_module
from tensorpack_lite.callbacks.steps import ProgressBar, SessionRunTimeout, TensorPrinter
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import state
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.tfutils.common import get_global_step_value, get_global_step_var
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.train import trainer
from tensorpack_lite.utils.utils import ENDLESS


class Probe(Callback):
    """Records the value of one tensor in each run."""

    def __init__(self, make) -> None:
        self._make, self.values = make, []

    def _setup_graph(self) -> None:
        self._tensor = self._make()

    def _before_run(self, ctx):
        return [self._tensor]

    def _after_run(self, ctx, run_values) -> None:
        self.values.append(run_values.results[0])


class TestMaintainStepCounter:
    def test_graph_and_python_agree(self):
        """The variable and trainer.global_step both count the steps."""
        seen = []

        class Look(Callback):
            def _trigger_step(self) -> None:
                seen.append((self.global_step, get_global_step_value()))

        run(CountingTrainer(), [Look()], steps=3, epochs=1)

        assert [(1, 1), (2, 2), (3, 3)] == seen

    def test_callbacks_before_it_see_the_old_count(self):
        """
        In after_run, the trainer's callbacks see the count before the step, the user's callbacks the count
        after it.
        """
        trainer, early, late = CountingTrainer(), RecordingCallback(), RecordingCallback()
        trainer.register_callback(early)
        run(trainer, [late], steps=2, epochs=1)

        assert [(1, 0), (1, 1)] == early.times("after_run")
        assert [(1, 1), (1, 2)] == late.times("after_run")

    def test_the_operation_stands_at_the_root(self, fresh_graph):
        """The operation is named `global_step_incr`, the variable `global_step`, without a scope."""
        run(CountingTrainer(), steps=1, epochs=1)

        assert "NoOp" != fresh_graph.get_operation_by_name("global_step_incr").type
        assert "global_step:0" == get_global_step_var().name

    def test_what_reads_it_sees_the_value_before_the_step(self):
        """A slow chain of operations that reads global_step sees the old value in every step."""

        def slow_read():
            value = tf.cast(get_global_step_var(), tf.float32)
            return tf.reduce_sum(tf.fill([200, 200], value)) / 40000

        probes = [Probe(slow_read) for _ in range(4)]
        run(CountingTrainer(), probes, steps=100, epochs=1)

        for probe in probes:
            np.testing.assert_allclose(probe.values, np.arange(100), rtol=1e-5)

    def test_a_decayed_learning_rate_of_the_tower(self):
        """The increment waits for a read that was created inside a tower, before the counter."""
        trainer = ScalingTrainer(
            build=lambda: tf.train.exponential_decay(1.0, get_global_step_var(), 1, 0.5, name="lr")
        )
        probe = Probe(lambda: tf.get_default_graph().get_tensor_by_name("lr:0"))
        run(trainer, [probe], steps=10, epochs=1)

        np.testing.assert_allclose(probe.values, 0.5 ** np.arange(10), rtol=1e-5)

    def test_a_ref_variable(self):
        """The increment waits for reads of a global_step that the user created as a ref variable."""
        tf.get_variable(
            "global_step", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False,
            use_resource=False, collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP],
        )  # fmt: skip
        probes = [Probe(lambda: tf.cast(get_global_step_var(), tf.float32) * 1.0) for _ in range(8)]
        run(CountingTrainer(), probes, steps=100, epochs=1)

        for probe in probes:
            assert list(range(100)) == probe.values

    def test_a_consumer_that_needs_a_feed_is_not_pulled_in(self):
        """A reader of a ref variable that depends on an unfed placeholder does not run in every step."""
        step = tf.get_variable(
            "global_step", shape=[], dtype=tf.int64, initializer=tf.zeros_initializer(), trainable=False,
            use_resource=False, collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.GLOBAL_STEP],
        )  # fmt: skip
        tf.add(step, tf.placeholder(tf.int64, []))

        assert 2 == run(CountingTrainer(), steps=2, epochs=1).global_step

    def test_a_read_behind_the_train_op_is_left_alone(self):
        """The increment does not wait for a read with control inputs, which could form a cycle."""
        trainer = CountingTrainer()
        with tf.control_dependencies([tf.Assert(False, ["never to be run"])]):
            get_global_step_var().read_value()

        assert 2 == run(trainer, steps=2, epochs=1).global_step

    def test_a_read_inside_a_condition(self):
        """A read inside tf.cond does not make the increment part of the condition."""
        trainer = CountingTrainer()
        step = get_global_step_var()
        tf.cond(tf.placeholder_with_default(False, []), step.read_value, lambda: tf.constant(0, tf.int64))

        assert 3 == run(trainer, steps=3, epochs=1).global_step

    def test_it_says_where_training_starts(self, log_lines):
        """A restored step is logged."""
        run(CountingTrainer(), steps=1, epochs=1, session_init=DictRestore({"global_step": np.int64(7)}))

        assert "Start training with global_step=7." in log_lines

    def test_step_0_is_not_worth_a_line(self, log_lines):
        """A training that starts at step 0 does not log the step."""
        run(CountingTrainer(), steps=1, epochs=1)

        assert not [line for line in log_lines if "Start training" in line]


class TestProgressBar:
    def train(self, names, steps=3, epochs=1, runs_per_step=1):
        """Train with a bar; returns the postfixes it was given and the fetches it made."""
        bar = ProgressBar(names)
        shown, fetched = [], []
        show, take = bar._show_values, bar._after_run
        bar._show_values = lambda: (shown.append(list(bar._values or ())), show())

        def after_run(ctx, run_values):
            fetched.append(run_values.results)
            take(ctx, run_values)

        bar._after_run = after_run
        run(CountingTrainer(runs_per_step), [bar], steps=steps, epochs=epochs)
        return shown, fetched

    @pytest.mark.parametrize(
        ("names", "refresh", "runs_per_step", "expected"),
        [
            (["cost"], "0", 2, [[0.0], None, [20.0], None]),  # only the first run of a step
            (["cost"], "100", 1, [None, [10.0]]),  # between two refreshes, only the last step of an epoch
            ([], "0", 1, [None, None]),
        ],
    )
    def test_tensors_are_fetched_only_if_they_are_shown(self, monkeypatch, names, refresh, runs_per_step, expected):
        """The bar evaluates its tensors once in each step in which it is redrawn."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", refresh)
        assert expected == self.train(names, steps=2, runs_per_step=runs_per_step)[1]

    @pytest.mark.parametrize(
        ("refresh", "steps", "epochs", "expected"),
        [
            ("0", 3, 1, [[0.0], [10.0], [20.0], [20.0]]),
            ("100", 3, 1, [[20.0]]),  # if the bar is not redrawn during an epoch, only the values of the last step
            ("100", 1, 3, [[0.0], [10.0], [20.0]]),
        ],
    )
    def test_values_are_shown_whenever_the_bar_is_drawn(self, monkeypatch, refresh, steps, epochs, expected):
        """If the bar is redrawn after each step, it shows each step's values."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", refresh)
        assert expected == self.train(["cost"], steps=steps, epochs=epochs)[0]

    def test_the_bar_counts_steps(self, capsys, monkeypatch):
        """On a terminal, the bar shows all steps at the end of an epoch, with the last part of the tensor's name."""
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        self.train(["cost:0"], steps=3)

        assert "|3/3[" in capsys.readouterr().err

    def test_a_short_epoch_logs_no_progress(self, capsys, log_lines):
        """Without a terminal, an epoch that ends within 30 seconds leaves no trace of a bar."""
        self.train(["cost"], steps=3)

        assert "" == capsys.readouterr().err
        assert not [line for line in log_lines if line.startswith("Epoch 1: ")]

    def test_without_a_terminal_progress_is_logged(self, capsys, monkeypatch, log_lines):
        """Each refresh is a line of the log, with steps, speed, times left and values; no carriage return."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", "0")
        self.train(["cost"], steps=3, epochs=2)

        first, last = ([line for line in log_lines if line.startswith(f"Epoch {n}: ")][-1] for n in (1, 2))
        assert re.fullmatch(r"Epoch 1: 3/3 \(.*it/s, 00:00 left\), cost=20\.?0?, all \d\d:\d\d", first)
        assert re.fullmatch(r"Epoch 2: 3/3 \(.*it/s, 00:00 left\), cost=50\.?0?", last)
        assert "" == capsys.readouterr().err

    @pytest.mark.parametrize(
        ("epochs", "expected"), [(4, ["all 03:00", "all 04:20", "all 02:33", ""]), (ENDLESS, [""] * 4)]
    )
    def test_time_left_of_all_epochs(self, monkeypatch, epochs, expected):
        """The time left of all is that of the steps left at the speed so far, which includes the time between epochs."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", "1e9")
        clock, shown, bar = [1000.0], [], ProgressBar([])
        monkeypatch.setattr(steps_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

        class Look(Callback):
            def _before_epoch(self):
                bar._bar.set_postfix_str = lambda text, refresh: shown.append(text)

            def _trigger_step(self):
                clock[0] += 30

            def _trigger_epoch(self):
                clock[0] += 140
                if self.epoch_num == 4:
                    raise StopTraining("enough")

        run(CountingTrainer(), [bar, Look()], steps=2, epochs=epochs)
        assert expected == shown

    def test_scalars_only(self):
        """A tensor that is not a scalar raises ValueError before training."""
        tf.constant([1.0, 2.0], name="vector")
        with pytest.raises(ValueError, match="ProgressBar: expected a scalar tensor, got .*vector"):
            run(CountingTrainer(), [ProgressBar(["vector"])])

    def test_a_failed_step_closes_the_bar(self):
        """after_train closes the bar of an unfinished epoch."""
        bar = ProgressBar()

        class Fail(Callback):
            def _trigger_step(self) -> None:
                raise ArithmeticError("here")

        with pytest.raises(ArithmeticError, match="here"):
            run(CountingTrainer(), [bar, Fail()])
        assert bar._bar is None


class TestTensorPrinter:
    def test_it_logs_each_run(self, log_lines):
        """Each run logs one line for each name."""
        run(CountingTrainer(), [TensorPrinter(["cost"])], steps=2, epochs=1)

        assert ["cost: 0.", "cost: 10."] == [line for line in log_lines if line.startswith("cost:")]


class TestSessionRunTimeout:
    def test_a_run_that_hangs_ends(self):
        """A step that blocks raises DeadlineExceededError."""
        trainer = CountingTrainer()
        trainer.train_op = tf.FIFOQueue(1, [tf.float32]).dequeue()
        with pytest.raises(tf.errors.DeadlineExceededError):
            run(trainer, [SessionRunTimeout(50)])


@pytest.mark.parametrize(("epochs", "num_lines"), [(99999, 1), (9999999, 1), (500, 0)])
def test_a_training_without_an_end(log_lines, epochs, num_lines):
    """A training whose max_epoch was not given says so before its first step, and names what ends it."""

    class Stop(Callback):
        def _before_epoch(self):
            raise StopTraining

    run(CountingTrainer(), [Stop()], epochs=epochs)
    lines = [line for line in log_lines if line.startswith(f"Training ends after epoch {epochs}. Pass max_epoch=")]
    assert num_lines == len(lines)


def test_epochs_without_steps(log_lines, monkeypatch):
    """Epochs without steps are possible under `tensorpack-lite run`, and logged."""
    complete_for_old_scripts(monkeypatch, state)
    monkeypatch.setattr(trainer, "check_steps", state.check_steps)
    run(CountingTrainer(), steps=0)
    assert 1 == len([line for line in log_lines if "steps_per_epoch is 0" in line and "nothing is trained" in line])
