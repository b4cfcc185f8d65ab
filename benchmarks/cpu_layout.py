"""
Cost of channels-first images on a CPU with `cpu_layout.install`, relative to channels-last images.

    python benchmarks/cpu_layout.py [--channels 64] [--steps 20]

The model is a small ResNet: four blocks of two convolutions with batch normalization, on 16 images of 32 x 32. The time
is the minimum over the steps of the CPU time of one thread, so that other processes have little influence.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from tensorpack_lite.compat import TF_VERSION, cpu_layout, ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf

BLOCKS = 4
PIXELS = np.random.RandomState(0).normal(size=(16, 32, 32, 3)).astype("float32")


def add_convolution(images, channels, data_format):
    """Convolve and normalize images by functions of tf.nn."""
    inputs = images.shape.as_list()[data_format.index("C")]
    with tf.variable_scope(None, "convolution"):
        kernel = tf.get_variable("kernel", [3, 3, inputs, channels], use_resource=True)
        scale = tf.get_variable("scale", [channels], initializer=tf.ones_initializer(), use_resource=True)
        offset = tf.get_variable("offset", [channels], initializer=tf.zeros_initializer(), use_resource=True)
    images = tf.nn.conv2d(images, kernel, [1, 1, 1, 1], "SAME", data_format=data_format)
    return tf.nn.fused_batch_norm(images, scale, offset, data_format=data_format)[0]


class Training:
    """The model in one data format, with a session."""

    def __init__(self, data_format, channels):
        with tf.Graph().as_default() as graph:
            self.pixels = images = tf.placeholder(tf.float32, [None, 32, 32, 3])
            if data_format == "NCHW":
                images = tf.transpose(images, [0, 3, 1, 2])
            images = add_convolution(images, channels, data_format)
            for _ in range(BLOCKS):
                inner = tf.nn.relu(add_convolution(images, channels, data_format))
                images = tf.nn.relu(images + add_convolution(inner, channels, data_format))
            self.cost = tf.reduce_mean(tf.square(images))
            self.train = tf.train.GradientDescentOptimizer(1e-4).minimize(self.cost)
            config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
            self.session = tf.Session(graph=graph, config=config)
            self.session.run(tf.global_variables_initializer())

    def time(self, fetch):
        """Return the CPU time of one step, in milliseconds."""
        start = time.process_time()
        self.session.run(fetch, {self.pixels: PIXELS})
        return 1000 * (time.process_time() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    ensure_graph_mode()
    cpu_layout.install()
    last, first = (Training(data_format, args.channels) for data_format in ("NHWC", "NCHW"))
    for what in ("cost", "train"):
        times = [[each.time(getattr(each, what)) for each in (last, first)] for _ in range(args.steps + 2)]
        channels_last, channels_first = np.min(times[2:], axis=0)
        print(
            f"TensorFlow {TF_VERSION[0]}.{TF_VERSION[1]}, {what}: {channels_last:.0f} ms in NHWC, "
            f"{channels_first:.0f} ms in NCHW, ratio {channels_first / channels_last:.2f}"
        )


if __name__ == "__main__":
    main()
