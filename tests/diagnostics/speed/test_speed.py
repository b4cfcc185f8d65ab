"""Tests for the callback that reports the bottleneck of a training."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from fakes.trainers import launch

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.diagnostics.speed import speed
from tensorpack_lite.diagnostics.speed.speed import Speed, _Measured
from tensorpack_lite.diagnostics.speed.speed_verdict import Verdict
from tensorpack_lite.diagnostics.speed.speed_window import SpeedWindow
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.notes import read_notes

pytestmark = pytest.mark.any_tensorflow


class Model(ModelDesc):
    """Learns one number."""

    def inputs(self):
        return [TensorSpec((None, 4), tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(tf.square(x * tf.get_variable("w", [4])))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.01)


class Ones(DataFlow):
    """Yields the same batch without end."""

    def __iter__(self):
        while True:
            yield [np.ones([2, 4], np.float32)]


def wait_10ms(datapoint):
    """Wait for 10 ms."""
    time.sleep(0.010)
    return datapoint


@pytest.fixture
def directory(tmp_path):
    """The directory of a training."""
    logger.set_logger_dir(str(tmp_path / "log"), action="d")
    yield str(tmp_path / "log")
    logger.reset()


class OnDemand(Callback):
    """
    Data whose next datapoint begins when a step begins, so that each step waits for it, on a busy machine too.

    Args:
        make: from the data to the input.
        num_ahead: the number of datapoints that the input takes before the first step.
        seconds: the time that a datapoint takes.
    """

    def __init__(self, make, num_ahead, seconds):
        self._seconds = seconds
        self._begun = threading.Semaphore(num_ahead)
        self.source = make(MapData(Ones(), self.wait))

    def wait(self, datapoint):
        """Wait for the next step, and then as long as a datapoint takes."""
        self._begun.acquire(timeout=60)
        time.sleep(self._seconds)
        return datapoint

    def _before_run(self, ctx):
        self._begun.release()

    def _after_train(self):
        for _ in range(100):  # the input ends while it waits for data
            self._begun.release()


QUEUE = pytest.param(QueueInput, 0, id="queue")
STAGING = pytest.param(lambda ds: StagingInput(QueueInput(ds)), 1, id="staging")
FEED = pytest.param(FeedInput, 1, id="feed")


class Sleepy(Callback):
    """Takes time in each step."""

    def _after_run(self, run_context, run_values):
        time.sleep(0.004)

    def _trigger_step(self):
        time.sleep(0.008)


def train(source, after=0.3, steps=100, epochs=1, callbacks=()):
    """Train with Speed, and perhaps other callbacks."""
    launch(
        model=Model(),
        data=source,
        steps_per_epoch=steps,
        max_epoch=epochs,
        monitors=[],
        callbacks=list(callbacks),
        extra_callbacks=[Speed(after=after)],
    )


class TestSpeed:
    @pytest.mark.slow
    @pytest.mark.parametrize(("make", "num_ahead"), [QUEUE, STAGING])
    def test_a_slow_pipeline(self, make, num_ahead, directory):
        """The note of a training with slow data has its steps and stages, and says that steps wait."""
        demand = OnDemand(make, num_ahead, seconds=0.03)
        train(demand.source, steps=40, callbacks=[demand])
        note = read_notes(directory)[0]
        assert "speed" == note["kind"]
        step = note["step"]
        parts = [step[name] for name in ("waiting", "run", "outside")]
        assert step["total"] == pytest.approx(sum(parts))
        assert step["waiting"] > 0
        stages = {row["stage"]: row for row in note["stages"]}
        assert {"QueueInput: reading", "MapData(wait)", "Ones"} <= set(stages)
        assert stages["MapData(wait)"]["own_ms"] >= 30
        assert 1 == pytest.approx(stages["MapData(wait)"]["per_step"], abs=0.5)

    @pytest.mark.slow
    def test_fed_data(self, directory):
        """FeedInput is named as the cause."""
        train(FeedInput(MapData(Ones(), wait_10ms)))
        (note, *_) = read_notes(directory)
        assert note["limit"] in ("FeedInput", "varies", "graph")  # the last one on a busy machine
        assert ["MapData(wait_10ms)", "Ones"] == [row["stage"] for row in note["stages"]]
        assert note["step"]["waiting"] >= 10

    @pytest.mark.slow
    @pytest.mark.parametrize(("make", "num_ahead"), [QUEUE, STAGING, FEED])
    def test_a_window_over_several_epochs(self, make, num_ahead, directory):
        """A note has the same figures if its steps are in several epochs."""
        demand = OnDemand(make, num_ahead, seconds=0.001)
        train(demand.source, steps=20, epochs=40, callbacks=[demand])
        note = read_notes(directory)[0]
        assert note["step"]["waiting"] is not None
        assert note["step"]["total"] > 0.5
        stages = {row["stage"]: row for row in note["stages"]}
        assert 1 == pytest.approx(stages["MapData(wait)"]["per_step"], abs=0.5)

    @pytest.mark.parametrize("source", [FeedInput, None])
    def test_nothing_is_done_outside_of_windows(self, source, directory):
        """Before the first window, Speed is not called in a step; without an input, it has no window at all."""
        seen, started = [], []

        class Looks(Callback):
            def _trigger_step(self):
                callbacks, session = self.trainer._callbacks, self.trainer.hooked_sess
                methods = [one[-1] for calls in callbacks._in_step.values() for one in calls]
                methods += [one[1] for one in session._afters]
                seen.extend(one.__self__ for one in methods + [one[1] for one in session._befores])
                seen.extend(session.observers)
                started.extend(thread for thread in threading.enumerate() if type(thread) is threading.Timer)

        with tf.Graph().as_default():
            trainer = SimpleTrainer()
            if source is None:
                trainer.train_op = tf.no_op()
            else:
                trainer.setup_graph(
                    Model().get_input_signature(), source(Ones()), Model().build_graph, Model().get_optimizer
                )
            trainer.train_with_defaults(
                callbacks=[Looks()],
                monitors=[],
                extra_callbacks=[Speed(after=1000)],
                steps_per_epoch=3,
                max_epoch=1,
            )
        assert seen
        assert not any(isinstance(one, (Speed, SpeedWindow)) for one in seen)
        assert (source is not None) == bool(started)
        assert not any(thread.is_alive() for thread in started)

    @pytest.mark.slow
    def test_only_changes_are_said(self, directory, monkeypatch):
        """A verdict is said again only if another limit is known; that the speed varies is not one."""
        limits = iter(["varies", "graph", "varies", "graph", "data", "varies", "data", *["graph"] * 100])
        monkeypatch.setattr(speed, "judge", lambda facts: Verdict(next(limits), "sentence", False))
        train(QueueInput(MapData(Ones(), wait_10ms)), after=0.01, steps=8, epochs=10)
        assert ["varies", "graph", "data", "graph"] == [note["limit"] for note in read_notes(directory)]

    @pytest.mark.slow
    def test_callbacks_are_named(self, directory):
        """If callbacks take much of each step, the note has the time of each; afterwards they are called directly again."""
        after = []

        def find():
            return [note for note in read_notes(directory) if note["limit"] == "callbacks"]

        class Looks(Callback):
            def _trigger_epoch(self):  # on a busy machine, the first verdict may be another one
                if find():
                    raise StopTraining

            def _after_train(self):
                for calls in self.trainer._callbacks._in_step.values():
                    after.extend(method for _, _, method in calls)
                after.extend(method for _, method, _ in self.trainer.hooked_sess._afters)

        train(QueueInput(Ones()), steps=60, epochs=60, callbacks=[Sleepy(), Looks()])
        (note,) = find()
        calls = note["calls_ms"]
        # on a busy machine, the shorter sleep may take longer than the other
        assert {"Sleepy, trigger_step", "Sleepy, after_run"} == set(list(calls)[:2])
        assert sorted(calls.values(), reverse=True) == list(calls.values())
        assert calls["Sleepy, trigger_step"] >= 8
        assert calls["Sleepy, after_run"] >= 4
        assert "Sleepy, trigger_step" in note["text"]
        assert after
        assert not any(isinstance(method, _Measured) for method in after)
