"""Small models for the tests of ModelExporter, and exporters of them."""

from __future__ import annotations

import numpy as np
from fakes.small_convnet import SmallConvNet

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import (
    BatchNorm,
    Conv2D,
    Conv2DTranspose,
    Dropout,
    FullyConnected,
    GlobalAvgPooling,
    LayerNorm,
    MaxPooling,
    PReLU,
)
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.export import ModelExporter
from tensorpack_lite.tfutils.sessinit import DictRestore

IMAGES = np.random.RandomState(0).rand(3, 8, 8).astype("float32")


def convnet(x):
    """Return the probabilities of a network with many kinds of layers for images [N, H, W]."""
    x = BatchNorm("bn", Conv2D("conv", x[..., tf.newaxis], 4, 3))
    x = MaxPooling("pool", PReLU("prelu", x), 2)
    x = LayerNorm("ln", Conv2DTranspose("deconv", x, 4, 3, strides=2))
    return tf.nn.softmax(FullyConnected("fc", Dropout(GlobalAvgPooling("gap", x)), 5))


def look_up(x):
    """Look a tensor up in a table."""
    initializer = tf.lookup.KeyValueTensorInitializer(tf.range(2, dtype=tf.int64), [5.0, 7.0])
    return tf.lookup.StaticHashTable(initializer, 0.0).lookup(tf.cast(x * 3, tf.int64))


class Scale(SmallConvNet):
    """A model with one variable and a table, whose outputs are easy to predict."""

    def inputs(self):
        return [TensorSpec([None], tf.float32, "x"), TensorSpec([None], tf.int64, "label")]

    def build_graph(self, x, label):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(1.0))
        keys = tf.range(3, dtype=tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, keys * 10)
        tf.identity(tf.lookup.StaticHashTable(initializer, -1).lookup(label), name="looked_up")
        tf.add(w * x, 1.0, name="y")


def scale(session_init=None, outputs=("y",), inputs=("x",)):
    """Return an exporter of the small model."""
    return ModelExporter(
        PredictConfig(
            model=Scale(),
            session_init=DictRestore({"w": 3.0}) if session_init is None else session_init,
            input_names=list(inputs),
            output_names=list(outputs),
        )
    )


class Changed(Scale):
    """A model whose output is given by a function, which may also name its tensors itself and return None."""

    def __init__(self, function):
        self.function = function

    def build_graph(self, x, label):
        y = self.function(x)
        if y is not None:
            tf.identity(y, name="y")


def changed(function, outputs=("y",), inputs=("x",), values=None):
    """Return an exporter of the model whose output a function makes from x, a vector. `values` are those of the variables."""
    config = PredictConfig(
        model=Changed(function),
        session_init=DictRestore({"w": 3.0} if values is None else values),
        input_names=list(inputs),
        output_names=list(outputs),
    )
    return ModelExporter(config)
