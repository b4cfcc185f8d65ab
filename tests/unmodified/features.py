"""
The features of TensorFlow 1 that old scripts use most, one function each, in the words of those scripts.

As a program, it calls each function and prints a JSON object: {function: "" or the error}. `test_features.py` runs it with
`tensorpack-lite run`, in plain Python, and with the argument `v1`: `import tensorflow.compat.v1 as tf`.
"""

import json
import sys

import numpy as np

if sys.argv[1:] == ["v1"]:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
else:
    import tensorflow as tf

IMAGES = np.random.RandomState(0).rand(2, 6, 6, 3).astype("float32")
FEATURES = []


def feature(function):
    FEATURES.append(function)
    return function


def run(*fetches):
    """Initialize all variables, and run."""
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return list(sess.run(fetches))


def names():
    return [v.op.name for v in tf.global_variables()]


def constant(value):
    return tf.constant_initializer(value)


@feature
def layers_conv2d_and_dense():
    x = tf.layers.conv2d(
        tf.constant(IMAGES), 4, 3, padding="same", kernel_initializer=constant(0.1), name="conv"
    )
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.dense(tf.layers.flatten(x), 5, activation=tf.nn.relu)
    assert x.shape.as_list() == [2, 5]
    assert names() == ["conv/kernel", "conv/bias", "dense/kernel", "dense/bias"]
    run(x)


@feature
def layers_batch_normalization():
    is_training = tf.placeholder(tf.bool, [])
    tf.layers.batch_normalization(tf.constant(IMAGES), momentum=0.5, training=is_training, name="bn")
    assert names() == ["bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(tf.get_collection(tf.GraphKeys.UPDATE_OPS), {is_training: True})
        mean = sess.run(tf.global_variables()[2])
    np.testing.assert_allclose(mean, IMAGES.mean((0, 1, 2)) / 2, rtol=1e-5)


@feature
def rnn_cell_and_dynamic_rnn():
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(4), tf.nn.rnn_cell.GRUCell(3)])
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(IMAGES[0]), dtype=tf.float32)
    assert run(outputs)[0].shape == (6, 6, 3)
    assert names()[0] == "rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel"


@feature
def contrib_variance_scaling_initializer():
    init = tf.contrib.layers.variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False, seed=1)
    (value,) = run(tf.get_variable("w", [100, 100], initializer=init))
    assert abs(value.std() - 0.1414 * 1.14 * 0.88) < 0.005  # truncated at two standard deviations


@feature
def contrib_xavier_initializer():
    fully, conv = run(
        tf.get_variable("w", [100, 50], initializer=tf.contrib.layers.xavier_initializer(seed=1)),
        tf.get_variable("k", [5, 5, 4, 2], initializer=tf.contrib.layers.xavier_initializer_conv2d(seed=1)),
    )
    assert 0.19 < np.abs(fully).max() <= 0.2
    assert 0.19 < np.abs(conv).max() <= 0.2


@feature
def contrib_regularizers():
    w = tf.constant([1.0, -2.0])
    l1, l2 = tf.contrib.layers.l1_regularizer(0.5), tf.contrib.layers.l2_regularizer(0.5)
    assert run(l1(w), l2(w)) == [1.5, 1.25]
    tf.get_variable("v", initializer=2.0, regularizer=l2)
    assert run(tf.losses.get_regularization_loss()) == [1.0]


@feature
def contrib_layer_norm():
    (y,) = run(tf.contrib.layers.layer_norm(tf.constant(IMAGES)))
    np.testing.assert_allclose(y.mean((1, 2, 3)), 0, atol=1e-5)
    assert names() == ["LayerNorm/beta", "LayerNorm/gamma"]


@feature
def contrib_batch_norm():
    y = tf.contrib.layers.batch_norm(
        tf.constant(IMAGES), is_training=True, scale=True, updates_collections=None
    )
    np.testing.assert_allclose(run(y)[0].std((0, 1, 2)), 1, atol=0.02)
    assert names() == ["BatchNorm/" + n for n in ("beta", "gamma", "moving_mean", "moving_variance")]


@feature
def contrib_fully_connected_and_dropout():
    x = tf.contrib.layers.fully_connected(tf.ones([2, 3]), 4, weights_initializer=constant(1.0))
    x = tf.contrib.layers.dropout(x, keep_prob=0.5, is_training=False)
    np.testing.assert_array_equal(run(x)[0], np.full((2, 4), 3))
    assert names() == ["fully_connected/weights", "fully_connected/biases"]


@feature
def contrib_convolution2d():
    y = tf.contrib.layers.convolution2d(
        tf.ones([1, 4, 4, 2]),
        3,
        [3, 3],
        padding="VALID",
        weights_initializer=constant(1.0),
        activation_fn=None,
    )
    np.testing.assert_array_equal(run(y)[0], np.full((1, 2, 2, 3), 18))


@feature
def slim_with_arg_scope():
    import tensorflow.contrib.slim as slim

    with slim.arg_scope(
        [slim.conv2d, slim.fully_connected],
        weights_initializer=constant(0.1),
        weights_regularizer=slim.l2_regularizer(1e-3),
    ):
        x = slim.conv2d(tf.constant(IMAGES), 4, [3, 3], scope="conv1")
        x = slim.max_pool2d(x, [2, 2], scope="pool1")
        x = slim.fully_connected(slim.flatten(x), 5, scope="fc")
    assert names() == ["conv1/weights", "conv1/biases", "fc/weights", "fc/biases"]
    assert len(slim.losses.get_regularization_losses()) == 2
    run(x)


@feature
def slim_repeat_and_pooling():
    slim = tf.contrib.slim
    x = slim.repeat(
        tf.constant(IMAGES), 2, slim.conv2d, 4, [3, 3], normalizer_fn=slim.batch_norm, scope="block"
    )
    x = slim.separable_conv2d(x, 4, [3, 3], depth_multiplier=1, scope="separable")
    x = slim.dropout(slim.avg_pool2d(x, [2, 2]), 0.9, is_training=True)
    assert run(x)[0].shape == (2, 3, 3, 4)
    assert names()[0] == "block/block_1/weights" and "separable/depthwise_weights" in names()


@feature
def contrib_rnn():
    cell = tf.contrib.rnn.DropoutWrapper(tf.contrib.rnn.LSTMCell(4), output_keep_prob=1.0)
    outputs, _ = tf.contrib.rnn.static_rnn(cell, [tf.ones([2, 3])] * 2, dtype=tf.float32)
    assert run(outputs[1])[0].shape == (2, 4)
    tf.contrib.rnn.GRUCell(3)(tf.ones([2, 3]), tf.zeros([2, 3]))
    assert names()[0] == "rnn/lstm_cell/kernel"


@feature
def contrib_seq2seq():
    loss = tf.contrib.seq2seq.sequence_loss(tf.zeros([2, 3, 4]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
    np.testing.assert_allclose(run(loss)[0], np.log(4), rtol=1e-5)


@feature
def contrib_framework():
    from tensorflow.contrib.framework import add_arg_scope, arg_scope

    @add_arg_scope
    def double(x, factor=2):
        return x * factor

    with arg_scope([double], factor=3):
        assert double(2) == 6
    tf.contrib.framework.local_variable(1.0, name="local")
    assert [v.op.name for v in tf.local_variables()] == ["local"]
    np.testing.assert_array_equal(run(tf.contrib.framework.sort(tf.constant([3, 1, 2])))[0], [1, 2, 3])


@feature
def contrib_training_placement():
    strategy = tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        devices = [
            tf.get_variable("v%d" % k, [size], use_resource=False).device for k, size in enumerate([10, 2, 3])
        ]
    assert devices == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1"]


@feature
def contrib_training_hparams():
    hparams = tf.contrib.training.HParams(lr=0.1, layers=[1, 2])
    hparams.parse("lr=0.5,layers=[3,4]")
    assert (hparams.lr, hparams.layers) == (0.5, [3, 4])


@feature
def contrib_tfprof():
    analyzer = tf.contrib.tfprof.model_analyzer
    tf.get_variable("w", [3, 4])
    report = analyzer.print_model_analysis(
        tf.get_default_graph(),
        tfprof_options=dict(analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, output="none"),
    )
    assert report.total_parameters == 12


@feature
def contrib_memory_stats():
    assert tf.contrib.memory_stats.BytesInUse().dtype == tf.int64


@feature
def contrib_data():
    data = tf.data.Dataset.range(5).apply(tf.contrib.data.batch_and_drop_remainder(2))
    value = data.make_one_shot_iterator().get_next()
    np.testing.assert_array_equal(run(value)[0], [0, 1])


@feature
def contrib_util():
    assert tf.contrib.util.make_ndarray(tf.contrib.util.make_tensor_proto([1, 2])).tolist() == [1, 2]


@feature
def nchw_convolution_and_gradient():
    x = tf.constant(IMAGES.transpose(0, 3, 1, 2))
    w = tf.get_variable("w", [3, 3, 3, 4])
    channels_first = tf.nn.conv2d(x, w, [1, 1, 2, 2], "SAME", data_format="NCHW")
    channels_first = tf.nn.max_pool(channels_first, [1, 1, 2, 2], [1, 1, 1, 1], "VALID", data_format="NCHW")
    channels_last = tf.nn.conv2d(tf.constant(IMAGES), w, [1, 2, 2, 1], "SAME")
    channels_last = tf.nn.max_pool(channels_last, [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    a, b, da, db = run(
        channels_first, channels_last, *[tf.gradients(y**2, w)[0] for y in (channels_first, channels_last)]
    )
    np.testing.assert_allclose(a.transpose(0, 2, 3, 1), b, atol=1e-5)
    np.testing.assert_allclose(da, db, atol=1e-4)


@feature
def nchw_batch_norm():
    x = tf.constant(IMAGES.transpose(0, 3, 1, 2))
    y, mean, _ = tf.nn.fused_batch_norm(x, tf.ones([3]), tf.zeros([3]), data_format="NCHW")
    np.testing.assert_allclose(run(mean)[0], IMAGES.mean((0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(
        run(tf.nn.bias_add(y, tf.ones([3]), data_format="NCHW"))[0].mean((0, 2, 3)), 1, atol=1e-5
    )


@feature
def dimension_value():
    x = tf.placeholder(tf.float32, [None, 3])
    assert x.shape[1].value == 3 and x.get_shape()[0].value is None
    assert int(x.get_shape()[1]) // 2 == 1


@feature
def assign_by_name():
    source, target = tf.get_variable("W", initializer=2.0), tf.get_variable("target/W", initializer=1.0)
    update = target.assign(tf.get_default_graph().get_tensor_by_name("W:0"))
    assert run(update) == [2.0]
    assert isinstance(source, tf.Variable)


@feature
def assign_by_name_in_a_tower():
    from tensorpack import FullyConnected, TowerContext

    with TowerContext("", is_training=True):
        FullyConnected("fc", tf.ones([1, 2]), 2)
        FullyConnected("target", tf.ones([1, 2]), 2)
    graph = tf.get_default_graph()
    assign = [
        v.assign(graph.get_tensor_by_name(v.op.name.replace("target", "fc") + ":0"))
        for v in tf.trainable_variables()
        if v.op.name.startswith("target")
    ]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(assign)
        np.testing.assert_array_equal(sess.run("fc/W:0"), sess.run("target/W:0"))
    assert tf.VERSION


@feature
def session_run_by_name():
    tf.get_variable("W", initializer=[1.0, 2.0])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run("W:0").tolist() == [1.0, 2.0]


@feature
def dataset_make_one_shot_iterator():
    data = tf.data.Dataset.from_tensor_slices(np.arange(3)).map(lambda x: x * 2)
    value = data.make_one_shot_iterator().get_next()
    with tf.Session() as sess:
        assert [sess.run(value) for _ in range(3)] == [0, 2, 4]


@feature
def argscope_of_tf_layers():
    from tensorpack.tfutils.argscope import argscope, enable_argscope_for_module

    enable_argscope_for_module(tf.layers)
    with argscope([tf.layers.conv2d], kernel_size=3, kernel_initializer=constant(0.5)):
        y = tf.layers.conv2d(tf.constant(IMAGES), 4)
    assert y.shape.as_list() == [2, 4, 4, 4]
    assert (run(tf.global_variables()[0])[0] == 0.5).all()


def main():
    errors = {}
    for function in FEATURES:
        try:
            with tf.Graph().as_default():
                function()
            errors[function.__name__] = ""
        except Exception as error:  # reported below
            errors[function.__name__] = "%s: %s" % (type(error).__name__, error)
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
