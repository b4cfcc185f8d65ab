"""A convnet with every kind of layer, small enough to keep its checkpoints in the repository."""

from __future__ import annotations

import json
import os

import numpy as np

from tensorpack_lite.callbacks import InferenceRunner, ModelSaver, ScalarStats
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.models import (
    BatchNorm,
    BNReLU,
    Conv2D,
    Conv2DTranspose,
    Dropout,
    FullyConnected,
    InstanceNorm,
    LayerNorm,
    MaxPooling,
    PReLU,
    l2_regularizer,
    regularize_cost,
)
from tensorpack_lite.predict import OfflinePredictor, PredictConfig
from tensorpack_lite.tfutils import optimizer, summary
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.gradproc import GlobalNormClip, SummaryGradient
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.train import ModelDesc, SimpleTrainer, TrainConfig, launch_train_with_config
from tensorpack_lite.utils import logger


class SmallConvNet(ModelDesc):
    """Classifies 8x8 images into 3 classes."""

    def inputs(self):
        return [TensorSpec([None, 8, 8], tf.float32, "image"), TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        x = tf.expand_dims(image, 3)
        x = Conv2D("conv0", x, 4, 3, activation=BNReLU)
        x = MaxPooling("pool0", x, 2)
        x = InstanceNorm("norm1", Conv2D("conv1", x, 4, 3, use_bias=False))
        x = PReLU("prelu", Conv2DTranspose("up", x, 2, 2, strides=2))
        x = LayerNorm("norm2", FullyConnected("fc0", x, 8))
        x = BatchNorm("bn", Dropout("drop", x, rate=0.1))
        logits = FullyConnected("fc1", x, 3)
        tf.nn.softmax(logits, name="prob")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        loss = tf.reduce_mean(losses, name="loss")
        cost = tf.add(loss, regularize_cost("fc.*/W", l2_regularizer(1e-4)), name="cost")
        summary.add_moving_summary(cost, loss)
        summary.add_param_summary((".*/W", ["rms", "histogram"]))
        return cost

    def optimizer(self):
        rate = tf.train.exponential_decay(0.01, get_global_step_var(), 10, 0.9, name="rate")
        tf.summary.scalar("learning_rate", rate)
        processors = [GlobalNormClip(5.0), SummaryGradient("fc1/.*")]
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(rate), processors)


def images(count, seed=0):
    """Return images and labels that depend only on the seed."""
    rng = np.random.RandomState(seed)
    return rng.rand(count, 8, 8).astype("float32"), rng.randint(3, size=[count]).astype("int32")


def train(directory, epochs=2):
    """Train epochs of three steps in a directory. Return the names that must be the same on every TensorFlow."""
    logger.set_logger_dir(directory, "d")
    pictures, labels = images(24)
    data = DataFromList([[pictures[i : i + 8], labels[i : i + 8]] for i in (0, 8, 16)], shuffle=False)
    trainer = SimpleTrainer()
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        callbacks = [ModelSaver(), InferenceRunner(data, ScalarStats(["cost"]))]
        launch_train_with_config(
            TrainConfig(model=SmallConvNet(), dataflow=data, callbacks=callbacks, max_epoch=epochs), trainer
        )
        variables = [v.op.name for v in tf.global_variables()]
        local = [v.op.name for v in tf.local_variables()]
    with open(os.path.join(directory, "stats.json")) as f:
        stats = json.load(f)
    keys = tf.train.NewCheckpointReader(os.path.join(directory, "model-6")).get_variable_to_shape_map()
    return {
        "global variables": variables,
        "local variables": local,
        "checkpoint keys": sorted(keys),
        "stats.json keys": [list(element) for element in stats],
        "callbacks": [str(cb) for cb in trainer._callbacks.cbs],
    }


def predict(checkpoint):
    """Evaluate a checkpoint on fixed images. Return the probabilities [16, 3]."""
    config = PredictConfig(
        model=SmallConvNet(),
        session_init=SmartInit(checkpoint),
        input_names=["image"],
        output_names=["prob"],
    )
    return OfflinePredictor(config)(images(16, seed=1)[0])[0]
