"""
The training of mnist_convnet.py without the layers of this library.

Shows: `build_graph` can contain any TensorFlow code that creates its variables with `tf.get_variable`.
Expect: an accuracy of 0.99, like mnist_convnet.py. A support vector machine is as good.

    python examples/mnist_plain_tf.py [the options of mnist_convnet.py]
"""

from __future__ import annotations

import mnist_convnet

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary


def convolution(name: str, x, filters: int):
    """3x3 convolution with stride 1 and ReLU."""
    with tf.variable_scope(name):
        shape = [3, 3, x.shape.as_list()[3], filters]
        kernel = tf.get_variable("kernel", shape, initializer=tf.variance_scaling_initializer(2.0))
        bias = tf.get_variable("bias", [filters], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME") + bias)


def dense(name: str, x, units: int):
    """Fully connected layer without activation."""
    with tf.variable_scope(name):
        shape = [x.shape.as_list()[1], units]
        kernel = tf.get_variable("kernel", shape, initializer=tf.variance_scaling_initializer(2.0))
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        return tf.matmul(x, kernel) + bias


def pool(x):
    """2x2 max pooling."""
    return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")


class Model(mnist_convnet.Model):
    """The same network. `inputs` and `optimizer` are inherited."""

    def build_graph(self, image, label):
        x = tf.expand_dims(image, 3) * 2 - 1
        x = pool(convolution("conv0", x, 32))
        x = convolution("conv1", x, 32)
        x = pool(convolution("conv2", x, 32))
        x = convolution("conv3", x, 32)
        x = tf.nn.relu(dense("fc0", tf.reshape(x, [-1, 7 * 7 * 32]), 64))
        if get_current_tower_context().is_training:
            x = tf.nn.dropout(x, rate=0.5)
        logits = dense("fc1", x, 10)
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        correct = tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32)
        accuracy = tf.reduce_mean(correct, name="accuracy")
        add_moving_summary(cost, accuracy)
        return cost


if __name__ == "__main__":
    mnist_convnet.Model = Model
    mnist_convnet.main(name="mnist_plain_tf")
