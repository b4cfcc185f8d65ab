"""
A ResNet and its feature pyramid.

The variables have the names of ../imagenet/resnet_model.py, so its checkpoints can be loaded.

Sources: He, Zhang, Ren, Sun 2015, "Deep residual learning for image recognition"; Lin et al. 2016, "Feature pyramid networks
for object detection"; Wu, He 2018, "Group normalization".
"""

from __future__ import annotations

import numpy as np
from config import Config

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.varreplace import freeze_variables

# depth -> number of blocks in each of the four groups
BLOCKS = {10: [1, 1, 1, 1], 18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3]}
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]  # of the red, green and blue values of ImageNet


@layer_register()
def GroupNorm(x, groups: int = 8, epsilon: float = 1e-5):
    """Normalize groups of channels of each image, so that the result does not depend on the batch."""
    channels, shape = x.shape.as_list()[3], tf.shape(x)
    grouped = tf.reshape(x, [shape[0], shape[1], shape[2], groups, channels // groups])
    mean, variance = tf.nn.moments(grouped, [1, 2, 4], keep_dims=True)
    gamma = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
    beta = tf.get_variable("beta", [channels], initializer=tf.zeros_initializer())
    normalized = tf.reshape((grouped - mean) * tf.rsqrt(variance + epsilon), shape)
    return tf.identity(normalized * gamma + beta, name="output")


def normalize(x, kind: str):
    """Apply the normalization of `Config.norm`."""
    if kind == "group":
        return GroupNorm("gn", x)
    return BatchNorm("bn", x, training=False if kind == "frozen" else None)


def resnet(image, config: Config) -> dict:
    """
    Return the feature maps {level: [N, H / 2 ** level, W / 2 ** level, C]} of the levels from 2 on.

    With frozen normalization, the layers before level 2 keep their pretrained weights.
    """

    def norm(x):
        return normalize(x, config.norm)

    def norm_relu(x):
        return tf.nn.relu(norm(x))

    def block(x, filters, strides):
        inputs = x
        if config.depth < 50:
            x = Conv2D("conv1", x, filters, 3, strides=strides, activation=norm_relu)
            x = Conv2D("conv2", x, filters, 3, activation=norm)
        else:
            filters *= 4
            x = Conv2D("conv1", x, filters // 4, 1, activation=norm_relu)
            x = Conv2D("conv2", x, filters // 4, 3, strides=strides, activation=norm_relu)
            x = Conv2D("conv3", x, filters, 1, activation=norm)
        if inputs.shape.as_list()[3] != filters:
            inputs = Conv2D("shortcut", inputs, filters, 1, strides=strides, activation=norm)
        return tf.nn.relu(x + inputs)

    def group(x, number):
        for index in range(BLOCKS[config.depth][number]):
            with tf.variable_scope(f"group{number}/block{index}"):
                x = block(x, config.width * 2**number, strides=2 if number > 0 and index == 0 else 1)
        return x

    initializer = tf.variance_scaling_initializer(2.0, mode="fan_out")
    with argscope(Conv2D, use_bias=False, kernel_initializer=initializer):
        with freeze_variables(stop_gradient=False, skip_collection=config.norm == "frozen"):
            x = Conv2D("conv0", image, config.width, 7, strides=2, activation=norm_relu)
            x = MaxPooling("pool0", x, 3, strides=2, padding="same")
            features = {2: group(x, 0)}
        for level in range(3, min(max(config.levels), 5) + 1):
            features[level] = group(features[level - 1], level - 2)
    return features


def pyramid(features: dict, config: Config) -> list:
    """
    Return one feature map [N, H, W, fpn_channels] for each level of `config.levels`.

    From the coarsest level to the finest one, each level is added to the next one. Level 6 only proposes large regions.
    """
    maps, above = {}, None
    for level in sorted(features, reverse=True):
        if level < config.levels[0]:
            break
        x = Conv2D(f"lateral{level}", features[level], config.fpn_channels, 1)
        if above is not None:
            x += enlarge(above)
        above = x
        maps[level] = Conv2D(f"smooth{level}", x, config.fpn_channels, 3)
    if 6 in config.levels:
        maps[6] = MaxPooling("pool6", maps[5], 1, strides=2)
    return [maps[level] for level in config.levels]


def enlarge(x):
    """Repeat each pixel in two rows and two columns."""
    return FixedUnPooling("enlarge", x, 2, tf.ones([2, 2]))


def get_features(image, config: Config) -> list:
    """Return the feature pyramid of images [N, H, W, 3], RGB in [0, 255]. They are padded to a multiple of the largest stride."""
    stride = 2 ** config.levels[-1]
    x = (tf.cast(image, tf.float32) - MEAN) / STD
    shape = tf.shape(x)
    x = tf.pad(x, [[0, 0], [0, -shape[1] % stride], [0, -shape[2] % stride], [0, 0]])
    x.set_shape([None, None, None, 3])
    features = resnet(x, config)
    with tf.variable_scope("fpn"):
        return pyramid(features, config)


def read_pretrained(path: str):
    """Return an initializer with the variables of a checkpoint, or of an .npz file of an ImageNet model."""
    if not path.endswith(".npz"):
        return SmartInit(path)
    weights = dict(np.load(path).items())
    if any("/convshortcut/" in name for name in weights):  # a model of tensorpack, for images in BGR order
        weights = {name.replace("/convshortcut/", "/shortcut/"): value for name, value in weights.items()}
        weights["conv0/W"] = weights["conv0/W"][:, :, ::-1]
    return SmartInit(weights)
