"""train/simple.py: one device."""

from __future__ import annotations

from unittest import mock

import pytest
from fakes.models import FinalW, Mean, threes

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer
from tensorpack_lite.utils import logger


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
        """Four halvings of the distance to 3, whatever feeds them."""
        assert 3 - 3 / 16 == train(SimpleTrainer(), data=source(threes()))

    def test_names(self):
        """There is no prefix: the names are those of the model."""
        trainer = SimpleTrainer()
        train(trainer, dataflow=threes())
        assert ["cost:0", "w/Read/ReadVariableOp:0"] == [
            trainer.towers[0][name].name for name in ("cost", "w")
        ]
        assert "train_op" == trainer.train_op.name
        assert ["w", "global_step"] == [v.op.name for v in tf.global_variables()]


class TestNoOpTrainer:
    def test_trains_nothing(self):
        """Steps run callbacks and count, and change no variable."""
        trainer = NoOpTrainer()
        assert 0.0 == train(trainer, dataflow=threes())
        assert 4 == trainer.global_step


class TestQueueInputTrainer:
    def test_warns_and_trains(self):
        """The old name trains as SimpleTrainer does, and says so."""
        with mock.patch.object(logger, "warning") as log:
            assert 3 - 3 / 16 == train(QueueInputTrainer(), dataflow=threes())
        assert any("old name" in str(call) for call in log.call_args_list)

    def test_other_inputs(self):
        """It takes a QueueInput only."""
        with pytest.raises(TypeError, match="QueueInputTrainer: takes a QueueInput, got FeedInput"):
            train(QueueInputTrainer(), data=FeedInput(threes()))
