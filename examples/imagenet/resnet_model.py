"""
The ResNet of train.py, with 18 to 101 layers.

Source: He, Zhang, Ren, Sun 2015, "Deep residual learning for image recognition".
"""

from __future__ import annotations

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

# depth -> number of blocks in each of the four groups
BLOCKS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3]}
CLASSES = 1000
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]  # of the red, green and blue values of ImageNet


def basic_block(x, filters: int, strides: int):
    """Two 3x3 convolutions, for ResNet-18 and 34."""
    x = Conv2D("conv1", x, filters, 3, strides=strides, activation=BNReLU)
    return Conv2D("conv2", x, filters, 3, activation=last_norm)


def bottleneck(x, filters: int, strides: int):
    """A 3x3 convolution between two 1x1 convolutions, which reduce and expand the channels, for ResNet-50 and 101."""
    x = Conv2D("conv1", x, filters, 1, activation=BNReLU)
    x = Conv2D("conv2", x, filters, 3, strides=strides, activation=BNReLU)
    return Conv2D("conv3", x, filters * 4, 1, activation=last_norm)


def last_norm(x):
    """BatchNorm with gamma = 0, so that each block is the identity function at first."""
    return BatchNorm("bn", x, gamma_initializer=tf.zeros_initializer())


def shortcut(x, channels: int, strides: int):
    """Return the input of a block, with a 1x1 convolution if the shape changes."""
    if x.shape.as_list()[3] == channels:
        return x
    return Conv2D("shortcut", x, channels, 1, strides=strides, activation=lambda y: BatchNorm("bn", y))


class Model(ModelDesc):
    """A ResNet with 18, 34, 50 or 101 layers."""

    def __init__(self, depth: int, size: int, total_batch: int) -> None:
        super().__init__()
        self.depth, self.size, self.total_batch = depth, size, total_batch

    def inputs(self):
        return [
            tf.TensorSpec([None, self.size, self.size, 3], tf.uint8, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = (tf.cast(image, tf.float32) - MEAN) / STD
        logits = self.get_logits(image)
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        for k in (1, 5):
            correct = tf.nn.in_top_k(logits, label, k)
            wrong = tf.cast(tf.logical_not(correct), tf.float32, name=f"wrong_top{k}")
            add_moving_summary(tf.reduce_mean(wrong, name=f"train_error_top{k}"))
        decay = tf.multiply(1e-4, regularize_cost(".*/W", tf.nn.l2_loss), name="decay_loss")
        add_moving_summary(cost, decay)
        return tf.add(cost, decay, name="cost")

    def get_logits(self, x):
        """Return the scores of the classes, [N, 1000]."""
        block, expansion = (bottleneck, 4) if self.depth >= 50 else (basic_block, 1)
        initializer = tf.variance_scaling_initializer(2.0, mode="fan_out")
        with argscope(Conv2D, use_bias=False, kernel_initializer=initializer):
            x = Conv2D("conv0", x, 64, 7, strides=2, activation=BNReLU)
            x = MaxPooling("pool0", x, 3, strides=2, padding="same")
            for group, count in enumerate(BLOCKS[self.depth]):
                for index in range(count):
                    filters, strides = 64 * 2**group, 2 if group > 0 and index == 0 else 1
                    with tf.variable_scope(f"group{group}/block{index}"):
                        x = tf.nn.relu(block(x, filters, strides) + shortcut(x, filters * expansion, strides))
        return FullyConnected("linear", GlobalAvgPooling("gap", x), CLASSES)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1 * self.total_batch / 256, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)
