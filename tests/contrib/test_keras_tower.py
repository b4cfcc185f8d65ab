"""contrib/keras_tower.py: names, phases and losses of a Keras 2 model in a tower."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.keras_models import Read, build_tower, compiled, keras, names, one_weight, quiet

from tensorpack_lite.callbacks import RunUpdateOps
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib import keras_tower
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.input_source import FeedInput


class TestTower:
    def layers(self, x):
        model = keras.models.Sequential()
        model.add(keras.layers.InputLayer(input_tensor=x))
        model.add(keras.layers.Dense(3, kernel_regularizer=keras.regularizers.l2(0.5), kernel_initializer="ones"))
        model.add(keras.layers.BatchNormalization(momentum=0.5))
        model.add(keras.layers.Dropout(0.5))
        model.add(keras.layers.Dense(1))
        return model

    TRAINED = [
        "dense/kernel", "dense/bias", "batch_normalization/gamma", "batch_normalization/beta",
        "dense_1/kernel", "dense_1/bias",
    ]  # fmt: skip
    NOT_TRAINED = ["batch_normalization/moving_mean", "batch_normalization/moving_variance"]

    @pytest.mark.parametrize("name", ["", "tower0"])
    def test_variables_are_named_after_the_layers(self, name):
        """The names of variables do not depend on the tower or on layers built before."""
        build_tower(self.layers, name=name)
        assert self.TRAINED == names(tf.GraphKeys.TRAINABLE_VARIABLES)
        assert self.NOT_TRAINED == names(tf.GraphKeys.MODEL_VARIABLES)
        assert set(self.TRAINED + self.NOT_TRAINED) == set(names(tf.GraphKeys.GLOBAL_VARIABLES))

    def test_towers_share_by_name(self):
        """A second training tower and an inference tower create no variables."""
        build_tower(self.layers, name="tower0")
        before = names(tf.GraphKeys.GLOBAL_VARIABLES)
        build_tower(self.layers, name="tower1", reuse=True)
        build_tower(self.layers, is_training=False, name="InferenceTower", reuse=True)
        assert before == names(tf.GraphKeys.GLOBAL_VARIABLES)
        assert self.TRAINED == names(tf.GraphKeys.TRAINABLE_VARIABLES)

    def test_a_tower_with_variables_of_its_own(self):
        """In replicated training, variables of the second tower have a prefix, and its statistics are not saved."""
        build_tower(self.layers, name="tower0")
        build_tower(self.layers, name="tower1", vs_name="tower1")
        prefixed = [f"tower1/{name}" for name in self.TRAINED]
        assert self.TRAINED + prefixed == names(tf.GraphKeys.TRAINABLE_VARIABLES)
        assert self.NOT_TRAINED == names(tf.GraphKeys.MODEL_VARIABLES)

    def test_regularization_is_counted_once(self):
        """The collection has each weight's regularization once, however many towers share the weight."""
        build_tower(self.layers, name="tower0")
        build_tower(self.layers, name="tower1", reuse=True)
        build_tower(self.layers, is_training=False, name="InferenceTower", reuse=True)
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        assert 1 == len(losses)

    def test_regularization_is_in_the_cost(self, sess):
        """In a tower, total_loss is mse + 0.5 * (1 + 1)."""
        half = keras.regularizers.l2(0.5)
        compiled(lambda x: one_weight(x, "ones", kernel_regularizer=half))
        sess.run(tf.global_variables_initializer())
        fed = {"x:0": [[1.0, 0.0]], "y:0": [[3.0]]}
        assert [4.0, 5.0] == sess.run(["mse:0", "total_loss:0"], fed)

    def test_activities_are_in_the_cost(self, sess):
        """The loss of an activity regularizer is part of its tower's cost."""
        half = keras.regularizers.l2(0.5)
        compiled(lambda x: one_weight(x, "ones", activity_regularizer=half))
        sess.run(tf.global_variables_initializer())
        fed = {"x:0": [[2.0, 0.0]], "y:0": [[3.0]]}
        assert [1.0, 1.0 + 0.5 * 2**2] == sess.run(["mse:0", "total_loss:0"], fed)

    def test_updates_come_from_the_first_training_tower(self):
        """UPDATE_OPS has two updates, of the moving mean and variance."""
        build_tower(self.layers, name="tower0")
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert 2 == len(updates)
        build_tower(self.layers, name="tower1", reuse=True)
        build_tower(self.layers, is_training=False, name="InferenceTower", reuse=True)
        assert updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS)

    def test_updates_move_the_statistics(self):
        """With momentum 0.5 and two steps of mean 2, the moving mean is 0, 1, 1.5."""

        def get_model(x):
            layers = [keras.layers.InputLayer(input_tensor=x), keras.layers.BatchNormalization(momentum=0.5)]
            return keras.models.Sequential([*layers, keras.layers.Dense(1)])

        data = DataFromList([[np.full([4, 2], 2.0, "float32"), np.zeros([4, 1], "float32")]] * 2, shuffle=False)
        read = Read("batch_normalization/moving_mean")
        compiled(get_model, data=FeedInput(data)).fit(**quiet(extra_callbacks=[RunUpdateOps()], callbacks=[read]))
        np.testing.assert_allclose([1.5, 1.5], read.values[0])

    def test_the_phase_is_the_towers(self, sess):
        """Dropout drops in training only; nothing needs to be fed, and Keras's placeholder is not created."""

        def get_model(x):
            return keras.models.Sequential([keras.layers.InputLayer(input_tensor=x), keras.layers.Dropout(0.5)])

        x, (dropped,), _ = build_tower(get_model)
        x2, (kept,), _ = build_tower(get_model, is_training=False, name="InferenceTower", reuse=True)
        values = np.ones([50, 2], "float32")
        assert {0.0, 2.0} == set(sess.run(dropped, {x: values}).ravel())
        np.testing.assert_array_equal(values, sess.run(kept, {x2: values}))
        assert "keras_learning_phase" not in [op.name for op in tf.get_default_graph().get_operations()]

    def test_frozen_layers_are_not_trained(self):
        """Layers with `layer.trainable = False`, set after building, are not trained."""

        def get_model(x):
            model = self.layers(x)
            model.layers[0].trainable = False
            return model

        build_tower(get_model)
        assert self.TRAINED[2:] == names(tf.GraphKeys.TRAINABLE_VARIABLES)
        assert set(self.TRAINED[:2] + self.NOT_TRAINED) == set(names(tf.GraphKeys.MODEL_VARIABLES))

    def test_frozen_layers_of_another_device(self):
        """In a tower with separate variables they are not trained either, and are not model variables."""

        def get_model(x):
            model = self.layers(x)
            model.layers[0].trainable = False
            return model

        build_tower(get_model, name="tower0")
        build_tower(get_model, name="tower1", vs_name="tower1")
        trained = self.TRAINED[2:]
        assert [*trained, *[f"tower1/{name}" for name in trained]] == names(tf.GraphKeys.TRAINABLE_VARIABLES)
        assert set(self.TRAINED[:2] + self.NOT_TRAINED) == set(names(tf.GraphKeys.MODEL_VARIABLES))

    def test_variables_of_the_users_own_stay_his(self):
        """tf.get_variable inside get_model creates the variable that it names."""

        def get_model(x):
            with tf.variable_scope("mine"):
                return one_weight(x * tf.get_variable("scale", initializer=2.0))

        build_tower(get_model, name="tower0")
        build_tower(get_model, name="tower1", reuse=True)
        build_tower(get_model, name="tower2", vs_name="tower2")
        mine = ["mine/scale", "mine/dense/kernel"]
        assert [*mine, *[f"tower2/{name}" for name in mine]] == names(tf.GraphKeys.TRAINABLE_VARIABLES)


class TestTerms:
    @pytest.mark.parametrize(
        ("target", "output", "expected"),
        [
            ([[1.0], [0.0]], [[0.9], [0.8]], 0.5),
            ([1, 0], [[0.1, 0.9], [0.8, 0.2]], 1.0),
            ([[1], [1]], [[0.1, 0.9], [0.8, 0.2]], 0.5),
            ([[0.0, 1.0], [0.0, 1.0]], [[0.1, 0.9], [0.8, 0.2]], 0.5),
        ],
        ids=["binary", "sparse", "sparse column", "categorical"],
    )
    def test_accuracy_fits_the_shapes(self, sess, target, output, expected):
        """As in Keras, "accuracy" selects one of four functions by the shapes."""
        (term,) = keras_tower.make_metrics("accuracy", keras_tower.make_losses("mse"))
        value = term.build_metric([tf.constant(target)], [tf.constant(output)])
        assert "accuracy:0" == value.name
        assert expected == sess.run(value)

    def test_functions_are_named_after_themselves(self, sess):
        """A function of the user has its own name."""

        def distance(target, output):
            return abs(target - output)

        (term,) = keras_tower.make_losses(distance)
        value = term.build_loss([tf.constant([1.0, 2.0])], [tf.constant([2.0, 4.0])], [None])
        assert ("distance:0", 1.5) == (value.name, sess.run(value))

    def test_a_metric_that_is_the_loss_is_not_built_twice(self):
        """A metric that equals the loss is not built again."""
        assert ["mae"] == [
            t.name for t in keras_tower.make_metrics(["mse", "mae", "mae"], keras_tower.make_losses("mse"))
        ]

    @pytest.mark.parametrize("given", [3, "AUC"])
    def test_no_function(self, given):
        """Metrics with variables, which accumulate over batches, are refused."""
        with pytest.raises(
            TypeError, match="setup_keras_trainer: metric: .* the name of a Keras function or a function"
        ):
            keras_tower.make_metrics(given, keras_tower.make_losses("mse"))
