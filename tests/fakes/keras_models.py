"""Small Keras 2 models and helpers that train them. Test files that import this are skipped where Keras 2 is not installed."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TF_VERSION, TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib import keras as bridge
from tensorpack_lite.contrib import keras_tower
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.input_source import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TrainTowerContext

if TF_VERSION >= (2, 16):
    pytest.importorskip("tf_keras")

keras = bridge.import_keras()
X = [TensorSpec([None, 2], tf.float32, "x")]
Y = [TensorSpec([None, 1], tf.float32, "y")]


def one_weight(x, kernel_initializer="zeros", **kwargs):
    """Build y = w x0 + v x1 on the tower's tensor. Initially, w and v are 0."""
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer=kernel_initializer, **kwargs)
    return keras.models.Sequential([keras.layers.InputLayer(input_tensor=x), layer])


def points(size=4):
    """Return batches of one: x = [1, 0], y = 3. Each step with learning rate 0.25 halves the distance to 3."""
    return DataFromList([[np.array([[1.0, 0.0]], "float32"), np.array([[3.0]], "float32")]] * size, shuffle=False)


def quiet(**kwargs):
    """Return arguments that leave out the monitors and the default callbacks."""
    return {"monitors": [], "extra_callbacks": [], "max_epoch": 1, **kwargs}


def compiled(get_model=one_weight, data=None, loss="mse", metrics=None, rate=0.25, **kwargs):
    model = bridge.KerasModel(get_model, X, Y, data or FeedInput(points()), **kwargs)
    model.compile(tf.train.GradientDescentOptimizer(rate), loss, metrics)
    return model


class Read(Callback):
    """Reads the values of variables or tensors at the end of training."""

    def __init__(self, *names):
        self.names = names

    def _after_train(self):
        tensors = [self.trainer.find_tensor(name) for name in self.names]
        self.values = self.trainer.sess.run(tensors)


def names(collection):
    return [var.op.name for var in tf.get_collection(collection)]


def build_tower(get_model, is_training=True, name="", reuse=None, vs_name=""):
    """Build one tower of a model. Return its placeholder, outputs and activity costs."""
    x = tf.placeholder(tf.float32, [None, 2], f"x_of_{name}")
    index = 1 if name == "tower1" else 0
    tower = TrainTowerContext(name, vs_name, index, index + 1) if is_training else PredictTowerContext(name, vs_name)
    with tf.variable_scope(tf.get_variable_scope(), reuse=reuse), tower as context:
        outputs, activity = keras_tower.TowerModel(get_model)(context, [x])
    return x, outputs, activity
