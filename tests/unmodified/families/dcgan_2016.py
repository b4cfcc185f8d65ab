# The generator of a DCGAN: it learns to draw one pattern.
import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("log_dir", "logs", "")
flags.DEFINE_integer("batch_size", 8, "")
FLAGS = flags.FLAGS


def deconv2d(x, output_shape, name, k=3, d=2):
    with tf.variable_scope(name):
        w = tf.get_variable(
            "w",
            [k, k, output_shape[-1], x.get_shape()[-1]],
            initializer=tf.random_normal_initializer(stddev=0.2, seed=1),
        )
        y = tf.nn.conv2d_transpose(x, w, output_shape=output_shape, strides=[1, d, d, 1])
        biases = tf.get_variable("biases", [output_shape[-1]], initializer=tf.constant_initializer(0.0))
        return tf.reshape(tf.nn.bias_add(y, biases), y.get_shape())


def generator(z, size=16):
    s2, s4 = size / 2, size / 4
    with tf.variable_scope("generator"):
        n = FLAGS.batch_size
        h = tf.layers.dense(z, 4 * 4 * 8, name="h0", kernel_initializer=tf.random_normal_initializer(stddev=0.2, seed=2))
        h = tf.nn.relu(tf.reshape(h, [-1, int(s4), int(s4), 8]))
        h = tf.nn.relu(deconv2d(h, [n, int(s2), int(s2), 4], "h1"))
        return tf.nn.sigmoid(deconv2d(h, [n, size, size, 1], "h2"))


def main(_):
    z = tf.placeholder(tf.float32, [None, 10 / 2], name="z")
    images = generator(z)
    assert images.get_shape().as_list() == [FLAGS.batch_size, 16, 16, 1]
    assert type(images) is tf.Tensor
    pattern = np.tile(np.eye(16, dtype="float32")[None, :, :, None], [FLAGS.batch_size, 1, 1, 1])
    loss = tf.reduce_mean(tf.abs(images - pattern))
    train_op = tf.train.AdamOptimizer(0.02).minimize(loss)
    noise = np.random.RandomState(0).randn(FLAGS.batch_size, 5).astype("float32")
    with tf.Session() as sess:
        sess.run(tf.initialize_all_variables())
        for _ in range(100):
            sess.run(train_op, {z: noise})
        print("error: %.5f" % sess.run(loss, {z: noise}))


if __name__ == "__main__":
    tf.app.run()
