# A softmax regression of TensorFlow 0.11: costs without keywords, the old FLAGS, and private modules.
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tensorflow
from tensorflow.python.framework import ops
from tensorflow.python.layers import core as layers_core
from tensorflow.python.ops import array_ops, control_flow_ops, seq2seq
from tensorflow.python.ops import variable_scope as vs
from tensorflow.python.training import training_ops

flags = tf.app.flags
flags.DEFINE_integer("classes", 3, "how many classes")
flags.DEFINE_float("learning_rate", 1.0, "the step size")
FLAGS = flags.FLAGS
FLAGS._parse_flags()
print(", ".join("%s=%s" % (name, value) for name, value in sorted(FLAGS.__flags.items())))
assert sorted(FLAGS.__dict__["__flags"]) == ["classes", "learning_rate"]
assert FLAGS.__flags["classes"] == 3 and str(FLAGS.__flags) == str({"classes": 3, "learning_rate": 1.0})
FLAGS.__flags["learning_rate"] = 2.0

rng = np.random.RandomState(0)
points = rng.randn(90, 2).astype("float32") * 0.3
classes = np.arange(90) % FLAGS.classes
points += np.array([[2, 0], [-1, 1.7], [-1, -1.7]], dtype="float32")[classes]

x = tf.placeholder(tf.float32, [None, 2])
y = tf.placeholder(tf.int64, [None])
one_hot = tf.one_hot(y, FLAGS.classes)
with vs.variable_scope("model"):
    W = vs.get_variable("W", [2, FLAGS.classes])
logits = tf.matmul(x, W)
costs = [
    tf.nn.sparse_softmax_cross_entropy_with_logits(logits, y),
    tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits, name="labels_first"),
    tf.nn.softmax_cross_entropy_with_logits(logits, one_hot),
    tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(logits, targets=one_hot), 1),
]
both = tf.concat(1, [tf.expand_dims(cost, 1) for cost in costs[:2]])
first, second = tf.split(1, 2, both)
cost = tf.reduce_mean(tf.mul(tf.add_n(costs[2:]), 0.5))
sampled = tf.nn.sampled_softmax_loss(
    tf.transpose(W), tf.zeros([FLAGS.classes]), x, tf.expand_dims(y, 1), 2, FLAGS.classes
)
train_op = tf.train.GradientDescentOptimizer(FLAGS.learning_rate).minimize(cost)

assert callable(seq2seq.sequence_loss) and hasattr(training_ops, "apply_adam")
assert array_ops.stack([1, 2]).get_shape().as_list() == [2]
assert isinstance(x, ops.Tensor) and control_flow_ops.cond(tf.constant(True), lambda: x, lambda: -x) is not None
assert layers_core.Dense(4, use_bias=False)(x).get_shape()[1] == 4

with tf.Session() as sess:
    sess.run(tf.initialize_all_variables())
    feed = {x: points, y: classes}
    for _ in range(50):
        sess.run(train_op, feed)
    values = sess.run([costs[0], costs[1], costs[2], tf.squeeze(first, [1]), tf.squeeze(second, [1])], feed)
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=1e-4, atol=1e-6)
    assert sess.run(sampled, feed).shape == (90,)
    path = tf.train.Saver([W]).save(sess, os.path.join(tempfile.mkdtemp(), "model"))
    weights = sess.run(W)

reader = pywrap_tensorflow.NewCheckpointReader(path)
assert reader.get_variable_to_shape_map() == {"model/W": [2, 3]}
predicted = points.dot(reader.get_tensor("model/W")).argmax(axis=1)
np.testing.assert_array_equal(reader.get_tensor("model/W"), weights)
print("error: %.4f" % np.mean(predicted != classes))
