# The beginners' tutorial, on images that this file writes in the format of MNIST.
import gzip
import os
import struct

import numpy as np
import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

flags = tf.app.flags
flags.DEFINE_string("data_dir", "MNIST_data", "Directory of the data")
flags.DEFINE_string("log_dir", "logs", "Directory of the summaries")
FLAGS = flags.FLAGS


def write(part, size, seed):
    random = np.random.RandomState(seed)
    labels = random.randint(10, size=size).astype("uint8")
    images = random.randint(100, size=(size, 28, 28)).astype("uint8")
    for image, label in zip(images, labels):
        image[2 * label : 2 * label + 4] += 120
    for name, head, data in [
        ("-images-idx3-ubyte.gz", (2051, size, 28, 28), images),
        ("-labels-idx1-ubyte.gz", (2049, size), labels),
    ]:
        with gzip.open(os.path.join(FLAGS.data_dir, part + name), "wb") as f:
            f.write(struct.pack(">%dI" % len(head), *head) + data.tobytes())


def main(_):
    os.makedirs(FLAGS.data_dir)
    write("train", 600, 0)
    write("t10k", 200, 1)
    mnist = input_data.read_data_sets(FLAGS.data_dir, one_hot=True, validation_size=100, seed=0)
    x = tf.placeholder(tf.float32, [None, 784])
    y_ = tf.placeholder(tf.float32, [None, 10])
    W = tf.Variable(tf.zeros([784, 10]))
    b = tf.Variable(tf.zeros([10]))
    y = tf.nn.softmax(tf.matmul(x, W) + b)
    cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y + 1e-10), reduction_indices=[1]))
    train_step = tf.train.GradientDescentOptimizer(0.05).minimize(cross_entropy)
    sess = tf.InteractiveSession()
    sess.run(tf.initialize_all_variables())
    for _ in range(200):
        batch_xs, batch_ys = mnist.train.next_batch(50)
        sess.run(train_step, feed_dict={x: batch_xs, y_: batch_ys})
    wrong = tf.not_equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    error = tf.reduce_mean(tf.cast(wrong, tf.float32))
    print("error: %.5f" % error.eval({x: mnist.test.images, y_: mnist.test.labels}))


if __name__ == "__main__":
    tf.app.run()
