# A regression with the names of TensorFlow 0.8 to 0.12.
from __future__ import division, print_function

import tempfile

import numpy as np
import tensorflow as tf

tf.set_random_seed(1)
points = np.random.RandomState(0).rand(64, 2).astype("float32")
values = points.dot([[2.0], [-1.0]]) + 0.5

x = tf.placeholder(tf.float32, [None, 4 / 2])
y = tf.placeholder(tf.float32, [None, 1])
W = tf.Variable(tf.zeros([2, 1]))
b = tf.Variable(tf.zeros([1]))
prediction = tf.add(tf.batch_matmul(x, W), b)
error = tf.sub(prediction, y)
loss = tf.reduce_mean(tf.select(error > 0, error, tf.neg(error)))
loss = tf.unpack(tf.pack([loss, tf.mul(loss, 2.0)]))[0]
cost = tf.reduce_mean(tf.square(error))
tf.scalar_summary("loss", loss)
tf.histogram_summary("weights", W)
summaries = tf.merge_all_summaries()
train_op = tf.train.GradientDescentOptimizer(0.5).minimize(cost)

with tf.Session() as sess:
    sess.run(tf.initialize_all_variables())
    writer = tf.train.SummaryWriter(tempfile.mkdtemp(), sess.graph)
    for step in range(200):
        text, _ = sess.run([summaries, train_op], {x: points, y: values})
        writer.add_summary(text, step)
    print("error: %.5f" % sess.run(loss, {x: points, y: values}))
