"""train/simple.py: trainers for one device."""

from __future__ import annotations

import pytest
from fakes.models import FinalW, Mean, threes

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.tfutils import summary
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer


def train(trainer, **kwargs):
    final = FinalW()
    kwargs = {
        "model": Mean(),
        "steps_per_epoch": 2,
        "max_epoch": 2,
        "extra_callbacks": [],
        "monitors": [],
        **kwargs,
    }
    launch_train_with_config(TrainConfig(callbacks=[final], **kwargs), trainer)
    return final.w


class TestSimpleTrainer:
    @pytest.mark.parametrize("source", [FeedInput, QueueInput])
    def test_closed_form(self, source):
        """Four steps, each halving the distance to 3, give the same result with every input source."""
        assert 3 - 3 / 16 == train(SimpleTrainer(), data=source(threes()))

    @pytest.mark.slow
    def test_names(self):
        """Variables and tensors have no prefix."""
        trainer = SimpleTrainer()
        train(trainer, dataflow=threes())
        assert ["cost:0", "w/Read/ReadVariableOp:0"] == [trainer.towers[0][name].name for name in ("cost", "w")]
        assert "train_op" == trainer.train_op.name
        assert ["w", "global_step"] == [v.op.name for v in tf.global_variables()]


class TestCost:
    """The cost is reported without a call in the model."""

    def history(self, build_graph, trainer=None):
        """Train with the default callbacks a model with this `build_graph(w, x)`; return what was reported."""

        class Model(Mean):
            def build_graph(self, x):
                return build_graph(tf.get_variable("w", initializer=0.0), x)

        trainer = trainer or SimpleTrainer()
        train(trainer, model=Model(), dataflow=threes(), extra_callbacks=None)
        return {name: trainer.monitors.get_history(name) for name in trainer.monitors._history}

    def test_under_the_name_of_its_tensor(self):
        """A cost of 9, then a quarter in each step, becomes a moving average."""
        history = self.history(lambda w, x: tf.reduce_mean((w - x) ** 2, name="my_loss"))
        assert ["my_loss"] == list(history)
        assert [2, 4] == [step for step, _ in history["my_loss"]]
        assert pytest.approx((9 * 0.95 + 2.25) / 1.95, rel=1e-4) == history["my_loss"][0][1]

    @pytest.mark.slow
    def test_under_total_cost_if_tensorflow_chose_the_name(self):
        """A cost whose name was not given, for instance "Mean", is reported as `total_cost`."""
        assert ["total_cost"] == list(self.history(lambda w, x: tf.reduce_mean((w - x) ** 2)))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "make_cost",
        [
            lambda w, x: tf.reduce_sum((w - x) ** 2) / 2.0,
            lambda w, x: tf.losses.mean_squared_error(x, w + 0 * x),
        ],
    )
    def test_under_total_cost_for_a_quotient_and_a_loss(self, make_cost):
        """A quotient, and a result of `tf.losses`, are reported as `total_cost`, too."""
        assert ["total_cost"] == list(self.history(make_cost))

    @pytest.mark.slow
    @pytest.mark.parametrize("summarize", [summary.add_moving_summary, lambda x: tf.summary.scalar("total-summary", x)])
    def test_a_model_that_reports_it_decides(self, summarize):
        """A cost of which the model makes a summary is not reported again."""

        def build_graph(w, x):
            cost = tf.reduce_mean((w - x) ** 2, name="total")
            summarize(cost)
            return cost

        assert ["total"] == list(self.history(build_graph))

    @pytest.mark.slow
    def test_the_progress_bar_shows_it(self, monkeypatch, log_lines):
        """ProgressBar() shows the cost of the last step."""
        monkeypatch.setenv("TENSORPACK_PROGRESS_REFRESH", "0")
        self.history(lambda w, x: tf.reduce_mean((w - x) ** 2, name="my_loss"))
        shown = [line for line in log_lines if line.startswith("Epoch 1: 2/2")]
        assert "my_loss=2.25" in shown[-1]


class TestNoOpTrainer:
    @pytest.mark.slow
    def test_reports_no_cost(self):
        """Its cost is not evaluated by default, since each step would take a datapoint."""
        trainer = NoOpTrainer()
        train(trainer, dataflow=threes())
        assert trainer.cost is None


class TestQueueInputTrainer:
    def test_warns_and_trains(self, log_lines):
        """QueueInputTrainer trains as SimpleTrainer does, with a warning."""
        assert 3 - 3 / 16 == train(QueueInputTrainer(), dataflow=threes())
        assert any("deprecated" in line for line in log_lines)
