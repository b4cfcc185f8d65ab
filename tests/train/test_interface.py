"""train/interface.py: launch_train_with_config and the default input."""

from __future__ import annotations

import pytest
from fakes.models import Mean, threes
from fakes.trainers import launch

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import apply_default_prefetch, launch_train_with_config
from tensorpack_lite.train.simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer


class TestDefaultPrefetch:
    def test_simple_trainer_feeds(self):
        """SimpleTrainer gets a FeedInput, and so does a trainer that derives from it."""

        class Derived(SimpleTrainer):
            pass

        for trainer in SimpleTrainer(), Derived():
            assert type(apply_default_prefetch(threes(), trainer)) is FeedInput

    @pytest.mark.parametrize("trainer", [NoOpTrainer, QueueInputTrainer])
    def test_others_queue(self, trainer):
        """NoOpTrainer, which runs no step that takes a datapoint, and QueueInputTrainer get a QueueInput."""
        assert type(apply_default_prefetch(threes(), trainer())) is QueueInput

    def test_own_default(self):
        """A trainer's `default_input` makes the input of a DataFlow."""

        class Batched(SimpleTrainer):
            default_input = staticmethod(lambda data: BatchQueueInput(data, 2))

        assert type(apply_default_prefetch(threes(), Batched())) is BatchQueueInput

    def test_input_source_stays(self):
        """An InputSource is used unchanged."""
        source = FeedInput(threes())
        assert source is apply_default_prefetch(source, NoOpTrainer())


class TestLaunch:
    def test_a_model_with_the_optimizer_of_another_graph(self):
        """A model whose optimizer has a tensor of an earlier training raises an error that says to create a new model."""

        class Model(Mean):
            def optimizer(self):
                return tf.train.GradientDescentOptimizer(tf.constant(0.1))

        model = Model()
        with tf.Graph().as_default():
            model.get_optimizer()
        with pytest.raises(ValueError, match=r"(?s)same graph.*SimpleTrainer.setup_graph: .*create a new model object"):
            launch_train_with_config(TrainConfig(model=model, dataflow=threes()), SimpleTrainer())

    def test_everything_in_the_config_is_used(self, log_dir):
        """Every field of the config reaches the trainer."""
        trainer = launch(steps_per_epoch=3, starting_epoch=4, max_epoch=5)
        assert (6, 3, 4, 5) == (
            trainer.global_step,
            trainer.steps_per_epoch,
            trainer.starting_epoch,
            trainer.max_epoch,
        )
