"""`trainer.monitors`: reported values, and the calls that monitors receive."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.models import Mean, threes
from fakes.recording import RecordingMonitor
from fakes.trainers import CountingTrainer, ScalingTrainer, run

from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.monitor.base import MonitorBase, NoOpMonitor
from tensorpack_lite.callbacks.monitor.monitors import Monitors
from tensorpack_lite.callbacks.summary import MergeAllSummaries
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.tfutils.summary import add_activation_summary
from tensorpack_lite.train.multi_gpu import SyncMultiGPUTrainerReplicated
from tensorpack_lite.train.simple import SimpleTrainer


@pytest.fixture
def monitor():
    """A monitor that writes down what it is told."""
    return RecordingMonitor()


@pytest.fixture
def monitors(monitor):
    """The group around it, as far into training as step 5."""
    trainer = CountingTrainer()
    trainer.loop.global_step = 5
    group = Monitors([monitor])
    group.setup_graph(trainer)
    return group


def scalars(*pairs):
    """A summary of scalars."""
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value) for tag, value in pairs])


class Summaries(Mean):
    """`Mean` with one summary of each kind."""

    def build_graph(self, x):
        act = tf.identity(tf.reshape(x, [1, -1]), name="act")
        add_activation_summary(act)
        tf.summary.histogram("h", x)
        tf.summary.image("im", tf.reshape(x, [1, 2, -1, 1]), max_outputs=1)
        tf.summary.scalar("s", x[0])
        return super().build_graph(x)


def names_of(trainer):
    """Train `Summaries`, and return the names of everything that its summaries contain."""
    monitor = RecordingMonitor()
    with tf.Graph().as_default():
        trainer.setup_graph(
            Summaries().get_input_signature(),
            QueueInput(threes()),
            Summaries().build_graph,
            Summaries().get_optimizer,
        )
        trainer.train_with_defaults(
            monitors=[monitor], extra_callbacks=[MergeAllSummaries()], steps_per_epoch=2, max_epoch=1
        )
    return {value.tag for summary in monitor.summaries for value in summary.value}


class TestPutScalar:
    @pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int64(3), np.array(3.0)])
    def test_every_number_becomes_pythons(self, monitors, monitor, value):
        """NumPy numbers are converted to Python numbers, which JSON can write."""
        monitors.put_scalar("cost", value)

        assert [("cost", 3)] == monitor.scalars
        assert type(monitor.scalars[0][1]) in (int, float)

    def test_a_summary_comes_too(self, monitors, monitor):
        """put_scalar also passes a summary with one value to the monitors."""
        monitors.put_scalar("cost", 0.5)

        assert [("cost", 0.5)] == [(v.tag, v.simple_value) for v in monitor.summaries[0].value]


class TestPutSummary:
    @pytest.mark.parametrize(
        ("tag", "name"),
        [
            ("tower0/lr-summary", "lr"),
            ("tower12/rawcost", "rawcost"),
            ("a/tower1/b/tower2/c", "a/b/c"),
            ("cost-summary", "cost"),
            ("cost-summary-x", "cost-summary-x"),
            ("lr", "lr"),
            ("eiffeltower0/lr", "eiffeltower0/lr"),
        ],
    )
    def test_names_of_scalars_are_shortened(self, monitors, monitor, tag, name):
        """Every `tower<k>/` and a trailing `-summary` are removed, also in the summary that is passed on."""
        monitors.put_summary(scalars((tag, 1.0)))

        assert [(name, 1.0)] == monitor.scalars
        assert [name] == [value.tag for value in monitor.summaries[0].value]

    def test_other_kinds_lose_the_tower(self, monitors, monitor):
        """A histogram's name loses `tower<k>/` but no suffix, and it is not reported as a scalar."""
        value = tf.Summary.Value(tag="tower0/w-summary", histo=tf.HistogramProto(min=1))
        monitors.put_summary(tf.Summary(value=[value]))

        assert [] == monitor.scalars
        assert "w-summary" == monitor.summaries[0].value[0].tag

    @pytest.mark.slow
    def test_names_are_the_same_with_each_trainer(self):
        """Scalars, histograms, images and activation summaries have the same names with one tower and with several."""
        names = [names_of(trainer) for trainer in (SimpleTrainer(), SyncMultiGPUTrainerReplicated(2, mode="cpu"))]

        assert names[0] == names[1]
        assert {
            "h",
            "im/image",
            "s",
            "activation-summary/act-rms",
            "activation-summary/act-histogram",
        } <= names[0]

    def test_bytes(self, monitors, monitor):
        """The bytes of a summary operation are accepted."""
        monitors.put_summary(scalars(("a", 1.0), ("b", 2.0)).SerializeToString())

        assert [("a", 1.0), ("b", 2.0)] == monitor.scalars


class TestSecondValue:
    def lines(self, log_lines):
        return [line for line in log_lines if "was reported twice" in line]

    def test_warned_once(self, monitors, log_lines):
        """A second value of a name at the same step logs a warning, once per name, whether a scalar or a summary has it."""
        for value in (0.5, 0.75, 1.0):
            monitors.put_scalar("a", value)
        monitors.put_scalar("b", 1)
        monitors.put_summary(scalars(("b", 2)))

        first, second = self.lines(log_lines)
        assert "'a' was reported twice at step 5, as 0.5 and then as 0.75" in first
        assert "prefix=" in first
        assert "'b' was reported twice" in second

    def test_not_warned(self, monitors, log_lines):
        """The same value again, and another value at another step, are accepted."""
        for value in (1.0, 1, float("nan")):
            monitors.put_scalar(f"name of {value}", value)
            monitors.put_scalar(f"name of {value}", value)
        monitors.trainer.loop.global_step = 6
        monitors.put_scalar("name of 1.0", 2)
        assert [] == self.lines(log_lines)

    def test_steps_without_a_hooked_run(self, monitors, log_lines):
        """Values of two steps or epochs are accepted if `run_step` makes no run of the hooked session, which are counted."""
        loop = monitors.trainer.loop
        for epoch, step in ((1, 0), (1, 1), (2, 1)):
            loop.epoch_num, loop.local_step = epoch, step
            monitors.put_scalar("a", epoch + step)
        assert [] == self.lines(log_lines)

        monitors.put_scalar("a", 5)
        assert 1 == len(self.lines(log_lines))

    def test_two_inference_runners(self, log_lines):
        """Two runners with inferencers of the same name log the warning; another prefix avoids it."""
        low, high = (DataFromList([[np.float32([value])]], shuffle=False) for value in (1, 2))
        runners = [
            InferenceRunner(low, ScalarStats("cost")),
            InferenceRunner(high, [ScalarStats("cost"), ScalarStats("cost", "other")], tower_name="Second"),
        ]
        trainer = run(ScalingTrainer(), runners, epochs=1)
        assert [3.0, 6.0] == [value for _, value in trainer.monitors.get_history("validation_cost")]
        assert 1 == len(self.lines(log_lines))


class TestPutImage:
    @pytest.mark.parametrize(
        ("shape", "batch"),
        [
            ((4, 5), (1, 4, 5, 1)),
            ((4, 5, 3), (1, 4, 5, 3)),
            ((4, 5, 1), (1, 4, 5, 1)),
            ((4, 5, 6), (4, 5, 6, 1)),
            ((2, 4, 5, 3), (2, 4, 5, 3)),
        ],
    )
    def test_shapes(self, monitors, monitor, shape, batch):
        """Each accepted shape of an image is converted to [N, H, W, C]."""
        monitors.put_image("picture", np.zeros(shape, dtype="uint8"))

        assert [("picture", batch)] == [(name, image.shape) for name, image in monitor.images]
        assert 1 == len(monitor.summaries)


def test_an_event(monitors, monitor):
    """The event has the current step and time."""
    monitors.put_event(tf.Event(file_version="x"))

    assert 5 == monitor.events[0].step
    assert monitor.events[0].wall_time > 0


@pytest.mark.parametrize(
    ("put", "error", "match"),
    [
        (lambda it: it.put_scalar("cost", np.zeros(2)), TypeError, "put_scalar 'cost' .*expected a number, got ndarray"),
        (lambda it: it.put_summary(3), TypeError, "put_summary: .*expected a tf.Summary or its bytes, got int"),
        (lambda it: it.put_image("x", np.zeros(3)), ValueError, r"put_image 'x': wrong shape .*got \(3,\)"),
        (lambda it: it.put_image("x", [[0]]), TypeError, "put_image 'x' .*expected ndarray, got list"),
        (lambda it: it.put_event(tf.Summary()), TypeError, "put_event: evt .*expected Event, got Summary"),
    ],
    ids=["scalar", "summary", "shape", "image", "event"],
)  # fmt: skip
def test_something_else(monitors, put, error, match):
    """A value of another kind is an error that says what was expected."""
    with pytest.raises(error, match=f"Monitors.{match}"):
        put(monitors)


class TestHistory:
    def test_latest_and_history(self, monitors):
        """Values are kept with the steps at which they were reported."""
        monitors.put_scalar("cost", 3)
        monitors.trainer.loop.global_step = 6
        monitors.put_summary(scalars(("tower0/cost-summary", 2.0)))

        assert 2.0 == monitors.get_latest("cost")
        assert [(5, 3.0), (6, 2.0)] == monitors.get_history("cost")

    def test_an_unknown_name(self, monitors):
        """For an unknown name, get_latest raises a KeyError that names the nearest ones, and get_history is empty."""
        monitors.put_scalar("cost", 3)

        with pytest.raises(KeyError, match="'error' has not been reported. Did you mean.*cost"):
            monitors.get_latest("error")
        assert [] == monitors.get_history("error")

    def test_the_history_given_out_is_a_copy(self, monitors):
        """Changing the returned list does not change the history."""
        monitors.put_scalar("cost", 3)
        monitors.get_history("cost").clear()

        assert [(5, 3.0)] == monitors.get_history("cost")


class TestMonitorBase:
    def test_no_name_scope(self):
        """setup_graph of a monitor opens no name scope."""
        seen = []

        class Look(MonitorBase):
            def _setup_graph(self) -> None:
                seen.append(self.graph.get_name_scope() or "")

        run(CountingTrainer(), monitors=[Look()], steps=1, epochs=1)

        assert [""] == seen

    def test_a_name_for_nothing(self):
        """str() of a NoOpMonitor is its name."""
        assert ["NoOpMonitor", "x"] == [str(NoOpMonitor()), str(NoOpMonitor("x"))]


class TestNotFinite:
    """Scalars that are NaN or infinite."""

    @staticmethod
    def train(values, other=1.0):
        """One step an epoch, which reports the next value of `cost`."""

        def put(self):
            self.trainer.monitors.put_scalar("cost", values[self.epoch_num - 1])
            self.trainer.monitors.put_scalar("other", other)

        return run(CountingTrainer(), [CallbackFactory(trigger=put)], steps=1, epochs=len(values))

    def test_warning(self, log_lines):
        """A name is mentioned once in a training, at the end of the epoch, with its first step and what to do."""
        self.train([1.0, float("nan"), float("inf"), 1.0])

        warnings = [line for line in log_lines if "not finite" in line]
        assert [
            "Monitors: not finite: 'cost' (nan, first reported at global_step=2). To end training at the first such loss and "
            "find the tensor where it began, add TerminateOnNaN() to the callbacks."
        ] == warnings
        third = next(line for line in log_lines if line.startswith("Epoch 3 "))
        assert log_lines.index(warnings[0]) < log_lines.index(third)

    def test_several_names(self, log_lines):
        """Names that become non-finite in one epoch share a line."""
        self.train([float("-inf")], other=float("nan"))

        assert 1 == sum("'cost' (-inf, " in line and "'other' (nan, " in line for line in log_lines)

    def test_finite(self, log_lines):
        """Finite scalars are not mentioned."""
        self.train([1e30, 0.0])

        assert not any("not finite" in line for line in log_lines)

    def test_a_training_that_ends_within_an_epoch(self, log_lines):
        """Non-finite scalars of an unfinished epoch are logged at the end of training."""

        class Ends(Callback):
            def _trigger_step(self):
                self.trainer.monitors.put_scalar("cost", float("nan"))
                raise StopTraining("enough")

        run(CountingTrainer(), [Ends()])
        assert 1 == sum("'cost' (nan, first reported at global_step=1)" in line for line in log_lines)
