"""train/interface.py: launch_train_with_config and the default input."""

from __future__ import annotations

import pytest
from fakes.models import Mean, threes

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.models import FullyConnected, l2_regularizer, regularize_cost_from_collection
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import apply_default_prefetch, launch_train_with_config
from tensorpack_lite.train.simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer


def in_cond(layer, x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x), lambda: x)


def in_nested_cond(layer, x):
    return in_cond(lambda x: in_cond(layer, x), x)


def in_while(layer, x):
    return tf.while_loop(lambda i, _: i < 1, lambda i, x: (i + 1, layer(x)), [0, x])[1]


def train_once(model):
    """One step."""
    config = TrainConfig(model=model, dataflow=threes(), steps_per_epoch=1, max_epoch=1, monitors=[])
    launch_train_with_config(config, SimpleTrainer())


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

    def test_unused_regularizers(self, log_lines):
        """A warning names regularization losses that are not part of the cost."""

        class Regularized(Mean):
            def build_graph(self, x):
                cost = super().build_graph(x)
                tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(0.0, name="forgotten"))
                return cost

        train_once(Regularized())
        assert any("not part of the cost: forgotten:0" in line for line in log_lines)

    def test_unused_regularizers_of_layers(self, log_lines):
        """The warning also names the losses of regularizers given to layers."""

        class Regularized(Mean):
            def build_graph(self, x):
                cost = super().build_graph(x)
                FullyConnected("fc", tf.reshape(x, [1, 4]), 2, kernel_regularizer=l2_regularizer(0.1))
                return cost

        train_once(Regularized())
        assert any("not part of the cost: fc/" in line for line in log_lines)

    @pytest.mark.parametrize("is_added", [False, True])
    @pytest.mark.parametrize("build", [in_cond, in_while, in_nested_cond], ids=lambda build: build.__name__)
    def test_regularizers_in_branches(self, log_lines, build, is_added):
        """The loss of a layer inside a condition or loop is named, unless the cost has it; training runs in both cases."""
        if TF_VERSION < (2, 0) and build is in_while:
            pytest.skip("TensorFlow 1.15 computes the cost inside the loop")

        class Regularized(Mean):
            def build_graph(self, x):
                cost = super().build_graph(x)
                cost += 0 * tf.reduce_sum(build(layer, tf.reshape(x, [2, 2])))
                return cost + regularize_cost_from_collection() if is_added else cost

        def layer(x):
            return FullyConnected("fc", x, 2, kernel_regularizer=l2_regularizer(0.1))

        train_once(Regularized())
        assert is_added != any("not part of the cost: fc/" in line for line in log_lines)

    def test_a_number_among_the_regularizers(self, log_lines):
        """A script may collect a number, which has no name."""

        class Regularized(Mean):
            def build_graph(self, x):
                tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, 0.5)
                return super().build_graph(x)

        train_once(Regularized())
        assert not any("not part of the cost" in line for line in log_lines)

    def test_everything_in_the_config_is_used(self, log_dir):
        """Every field of the config reaches the trainer."""
        trainer = SimpleTrainer()
        config = TrainConfig(model=Mean(), dataflow=threes(), steps_per_epoch=3, starting_epoch=4, max_epoch=5)
        launch_train_with_config(config, trainer)
        assert (6, 3, 4, 5) == (
            trainer.global_step,
            trainer.steps_per_epoch,
            trainer.starting_epoch,
            trainer.max_epoch,
        )
