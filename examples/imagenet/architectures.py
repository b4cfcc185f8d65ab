"""
Six convolutional networks as functions: normalized images [N, H, W, 3] -> scores of the classes [N, classes].

Expect: this is a module for imagenet_models.py, whose docstring cites the papers. Images need at least 64 x 64 pixels.
"""

from __future__ import annotations

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf

# Outputs of a module: 1x1; 3x3 reduce, 3x3; double 3x3 reduce, double 3x3; pooling, and the projection after it. Modules
# without a 1x1 convolution have stride 2. In the paper's table, 4c and 4d have 576 outputs, but its columns add up to 608.
INCEPTION = {
    "3a": (64, 64, 64, 64, 96, AvgPooling, 32),
    "3b": (64, 64, 96, 64, 96, AvgPooling, 64),
    "3c": (0, 128, 160, 64, 96, MaxPooling, 0),
    "4a": (224, 64, 96, 96, 128, AvgPooling, 128),
    "4b": (192, 96, 128, 96, 128, AvgPooling, 128),
    "4c": (160, 128, 160, 128, 160, AvgPooling, 128),
    "4d": (96, 128, 192, 160, 192, AvgPooling, 128),
    "4e": (0, 128, 192, 192, 256, MaxPooling, 0),
    "5a": (352, 192, 320, 160, 224, AvgPooling, 128),
    "5b": (352, 192, 320, 192, 224, MaxPooling, 128),
}


@layer_register(log_shape=True)
def DepthwiseConv(x, strides: int = 1):
    """Apply a 3x3 filter to each channel separately, then BatchNorm. The filters are `W` [3, 3, C, 1]."""
    initializer = tf.variance_scaling_initializer(2.0, mode="fan_out")  # fan_in would count all channels
    kernel = tf.get_variable("W", [3, 3, x.shape.as_list()[3], 1], initializer=initializer)
    return BatchNorm("bn", tf.nn.depthwise_conv2d(x, kernel, [1, strides, strides, 1], "SAME"))


def classifier(x, classes: int):
    """Two hidden layers with dropout, and the scores: the end of AlexNet and VGG."""
    for name in ("fc6", "fc7"):
        x = Dropout(FullyConnected(name, x, 4096, activation=tf.nn.relu), rate=0.5)
    return FullyConnected("fc8", x, classes)


def alexnet(x, classes: int):
    x = tf.pad(x, [[0, 0], [2, 1], [2, 1], [0, 0]])  # 224 pixels become 227, whose first output has 55
    layers = [(96, 11, 1), (256, 5, 2), (384, 3, 1), (384, 3, 2), (256, 3, 2)]
    for k, (filters, kernel_size, split) in enumerate(layers, 1):
        strides, padding = (4, "valid") if k == 1 else (1, "same")
        x = Conv2D(f"conv{k}", x, filters, kernel_size, strides=strides, padding=padding, split=split)
        x = tf.nn.relu(x)
        if k <= 2:  # normalize over 5 neighboring channels
            x = tf.nn.lrn(x, depth_radius=2, bias=2, alpha=1e-4, beta=0.75)
        if k not in (3, 4):
            x = MaxPooling(f"pool{k}", x, 3, strides=2)
    return classifier(x, classes)


def vgg16(x, classes: int):
    for group, (filters, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 1):
        for k in range(count):
            x = Conv2D(f"conv{group}_{k + 1}", x, filters, 3, activation=tf.nn.relu)
        x = MaxPooling(f"pool{group}", x, 2)
    return classifier(x, classes)


def inception(x, one, reduce3, three, reduce_double, double, pooling, projection):
    """Up to four branches, whose outputs are concatenated."""
    strides = 1 if one else 2
    branches = [Conv2D("conv1x1", x, one, 1)] if one else []
    y = Conv2D("conv3x3_reduce", x, reduce3, 1)
    branches.append(Conv2D("conv3x3", y, three, 3, strides=strides))
    y = Conv2D("double3x3_reduce", x, reduce_double, 1)
    y = Conv2D("double3x3_a", y, double, 3)
    branches.append(Conv2D("double3x3_b", y, double, 3, strides=strides))
    y = pooling("pool", x, 3, strides=strides, padding="same")
    if projection:
        y = Conv2D("projection", y, projection, 1)
    return tf.concat([*branches, y], 3)


def inception_bn(x, classes: int):
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = Conv2D("conv1", x, 64, 7, strides=2)
        x = MaxPooling("pool1", x, 3, strides=2, padding="same")
        x = Conv2D("conv2_reduce", x, 64, 1)
        x = Conv2D("conv2", x, 192, 3)
        x = MaxPooling("pool2", x, 3, strides=2, padding="same")
        for name, outputs in INCEPTION.items():
            with tf.variable_scope(f"inception_{name}"):
                x = inception(x, *outputs)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


def shuffle_unit(x, channels: int):
    """Convolve half of the channels, or with stride 2 all of them in two ways. Interleave both halves of the result."""
    _, height, width, before = x.shape.as_list()
    if before == channels:
        strides = 1
        left, right = tf.split(x, 2, axis=3)
    else:
        strides = 2
        left = DepthwiseConv("left_dw", x, strides)
        left = Conv2D("left_conv", left, channels // 2, 1)
        right = x
    right = Conv2D("conv1", right, channels // 2, 1)
    right = DepthwiseConv("dw", right, strides)
    right = Conv2D("conv2", right, channels // 2, 1)
    both = tf.stack([left, right], axis=4)  # [N, h, w, channels / 2, 2]
    return tf.reshape(both, [-1, -(-height // strides), -(-width // strides), channels])


def shufflenet_v2(x, classes: int):
    with argscope(Conv2D, use_bias=False, activation=BNReLU):
        x = Conv2D("conv1", x, 24, 3, strides=2)
        x = MaxPooling("pool1", x, 3, strides=2, padding="same")
        for k, channels in enumerate([116] * 4 + [232] * 8 + [464] * 4):
            with tf.variable_scope(f"unit{k}"):
                x = shuffle_unit(x, channels)
        x = Conv2D("conv5", x, 1024, 1)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), classes)


def dense_layer(x, growth: int):
    """Append `growth` channels, computed from all previous ones."""
    y = Conv2D("conv1", BNReLU("norm1", x), 4 * growth, 1)
    y = Conv2D("conv2", BNReLU("norm2", y), growth, 3)
    return tf.concat([x, y], axis=3)


def densenet121(x, classes: int):
    with argscope(Conv2D, use_bias=False):
        x = Conv2D("conv1", x, 64, 7, strides=2, activation=BNReLU)
        x = MaxPooling("pool1", x, 3, strides=2, padding="same")
        for block, count in enumerate([6, 12, 24, 16], 1):
            if block > 1:  # halve the channels and the size
                channels = x.shape.as_list()[3]
                x = Conv2D(f"conv{block}", BNReLU(f"norm{block}", x), channels // 2, 1)
                x = AvgPooling(f"pool{block}", x, 2)
            for k in range(count):
                with tf.variable_scope(f"block{block}/layer{k}"):
                    x = dense_layer(x, growth=32)
    x = GlobalAvgPooling("gap", BNReLU("norm", x))
    return FullyConnected("linear", x, classes)


def inverted_residual(x, expansion: int, channels: int, strides: int):
    """Expand the channels, filter each of them, and project to few channels without a nonlinearity."""
    before = x.shape.as_list()[3]
    y = x
    if expansion > 1:
        y = tf.nn.relu6(Conv2D("expand", y, before * expansion, 1))
    y = tf.nn.relu6(DepthwiseConv("dw", y, strides))
    y = Conv2D("project", y, channels, 1)
    return x + y if strides == 1 and before == channels else y


def mobilenet_v2(x, classes: int):
    stages = [(16, 1, 1), (24, 2, 2), (32, 3, 2), (64, 4, 2), (96, 3, 1), (160, 3, 2), (320, 1, 1)]
    with argscope(Conv2D, use_bias=False, activation=lambda y: BatchNorm("bn", y)):
        x = tf.nn.relu6(Conv2D("conv1", x, 32, 3, strides=2))
        for stage, (channels, count, strides) in enumerate(stages, 1):
            for k in range(count):
                with tf.variable_scope(f"stage{stage}/block{k}"):
                    x = inverted_residual(x, 6 if stage > 1 else 1, channels, strides if k == 0 else 1)
        x = tf.nn.relu6(Conv2D("conv2", x, 1280, 1))
    x = Dropout(GlobalAvgPooling("gap", x), rate=0.2)
    return FullyConnected("linear", x, classes)


NETWORKS = {f.__name__: f for f in (alexnet, vgg16, inception_bn, shufflenet_v2, densenet121, mobilenet_v2)}
