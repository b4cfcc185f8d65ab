"""
Uses of TensorFlow 0.x and 1.x that TensorFlow 2 refuses, one function each, in the words of old scripts.

As a program, it calls each function and prints a JSON object: {function: "" or the error}. `test_old_features.py` runs it
with `tensorpack-lite run`.
"""

import gzip
import json
import os
import struct
import tempfile

import numpy as np
import tensorflow as tf

FEATURES = []
IS_TF1 = tf.__version__.startswith("1.")


def feature(function):
    FEATURES.append(function)
    return function


def run(*fetches):
    """Initialize all variables, and run."""
    with tf.Session() as sess:
        sess.run(tf.initialize_all_variables())
        return list(sess.run(fetches))


def error_of(function, kind):
    try:
        function()
    except kind as error:
        return str(error)
    raise RuntimeError("no %s" % kind.__name__)


# TensorFlow 0.x -------------------------------------------------------------------------------------------------------
@feature
def arithmetic():
    x, y = tf.constant([1.0, -2.0]), tf.constant([3.0, 4.0])
    values = run(tf.mul(x, y), tf.sub(x, y), tf.neg(x), tf.inv(y), tf.select(x > 0, x, y), tf.complex_abs(x))
    np.testing.assert_allclose(values[0], [3, -8])
    np.testing.assert_allclose(values[1], [-2, -6])
    np.testing.assert_allclose(values[2], [-1, 2])
    np.testing.assert_allclose(values[3], [1 / 3, 1 / 4], rtol=1e-6)
    np.testing.assert_allclose(values[4], [1, 4])
    np.testing.assert_allclose(values[5], [1, 2])


@feature
def orders_of_arguments():
    x = tf.constant(np.random.RandomState(0).rand(5, 2, 4), tf.float32)
    labels = tf.SparseTensor([[0, 0], [1, 0]], [1, 2], [2, 1])
    lengths = tf.constant([5, 5])
    old = tf.nn.ctc_loss(x, labels, lengths)
    new = tf.nn.ctc_loss(labels, x, lengths)
    joined = tf.concat(concat_dim=0, values=[x, x])
    first, second = tf.split(split_dim=0, num_split=2, value=joined)
    sampled = tf.nn.nce_loss(tf.ones([4, 3]), tf.zeros([4]), tf.ones([2, 3]), tf.constant([[0], [1]]), 2, 4)
    parts = tf.split(tf.concat([x, x], 2), 2, 2)
    values = run(old, new, first, second, parts[0], sampled)
    np.testing.assert_allclose(values[0], values[1])
    np.testing.assert_allclose(values[2], values[3])
    np.testing.assert_allclose(values[2], values[4])
    assert values[5].shape == (2,)


@feature
def stacks():
    packed = tf.pack([tf.constant([1, 2]), tf.constant([3, 4])])
    first, second = tf.unpack(packed)
    joined = tf.concat_v2([first, second], 0)
    parts = tf.split_v(joined, [1, 3], 0)
    values = run(packed, second, joined, parts[1])
    assert [value.tolist() for value in values] == [[[1, 2], [3, 4]], [3, 4], [1, 2, 3, 4], [2, 3, 4]]


@feature
def batch_matrices():
    x = np.random.RandomState(0).rand(2, 3, 4).astype("float32")
    (product,) = run(tf.batch_matmul(x, x, adj_y=True))
    np.testing.assert_allclose(product, x @ x.transpose(0, 2, 1), rtol=1e-5)
    (transposed,) = run(tf.batch_matrix_transpose(tf.constant(x)))
    assert transposed.shape == (2, 4, 3)


@feature
def summaries():
    image = tf.zeros([1, 2, 2, 3])
    tf.scalar_summary("loss", 3.0)
    tf.scalar_summary(["a", "b"], [1.0, 2.0])
    tf.histogram_summary("weights", tf.constant([1.0, 2.0]))
    tf.image_summary("images", image, max_images=1)
    tf.contrib.deprecated.scalar_summary("old", 4.0)
    merged = tf.merge_all_summaries()
    folder = tempfile.mkdtemp()
    with tf.Session() as sess:
        text = sess.run(merged)
        writer = tf.train.SummaryWriter(folder, sess.graph)
        writer.add_summary(text, 1)
        writer.close()
    values = {v.tag: v for v in tf.Summary.FromString(text).value}
    assert sorted(values) == [
        "a",
        "b",
        "images/image/0" if "images/image/0" in values else "images/image",
        "loss",
        "old",
        "weights",
    ]
    assert values["loss"].simple_value == 3.0 and values["b"].simple_value == 2.0
    assert len(os.listdir(folder)) == 1


@feature
def recurrent():
    cell = tf.nn.rnn_cell.BasicLSTMCell(8 / 2)
    outputs, _ = tf.nn.rnn(cell, [tf.ones([2, 3])] * 2, dtype=tf.float32)
    assert outputs[1].shape.as_list() == [2, 4]


@feature
def legacy_seq2seq():
    from tensorflow.contrib import legacy_seq2seq

    cell = tf.nn.rnn_cell.GRUCell(4)
    inputs = [tf.ones([2, 3])] * 2
    outputs, _ = legacy_seq2seq.rnn_decoder(inputs, cell.zero_state(2, tf.float32), cell)
    targets, weights = [tf.zeros([2], tf.int32)] * 2, [tf.ones([2])] * 2
    each = legacy_seq2seq.sequence_loss_by_example([tf.zeros([2, 4])] * 2, targets, weights)
    mean = legacy_seq2seq.sequence_loss([tf.zeros([2, 4])] * 2, targets, weights)
    values = run(outputs[1], each, mean)
    assert values[0].shape == (2, 4)
    np.testing.assert_allclose(values[1], np.full(2, np.log(4)), rtol=1e-5)
    np.testing.assert_allclose(values[2], np.log(4), rtol=1e-5)
    with tf.variable_scope("second"):
        outputs, _ = legacy_seq2seq.basic_rnn_seq2seq(inputs, inputs, tf.nn.rnn_cell.GRUCell(4))
    assert len(outputs) == 2


@feature
def per_image_whitening():
    (image,) = run(tf.image.per_image_whitening(tf.constant(np.arange(12.0).reshape(2, 2, 3))))
    np.testing.assert_allclose(image.mean(), 0, atol=1e-6)


@feature
def names_that_are_asked_for():
    assert hasattr(tf, "mul") and not hasattr(tf, "mull")


# MNIST ----------------------------------------------------------------------------------------------------------------
def write_mnist(folder):
    for part, size in (("train", 20), ("t10k", 6)):
        with gzip.open(os.path.join(folder, part + "-images-idx3-ubyte.gz"), "wb") as file:
            pixels = np.repeat(np.arange(size, dtype="uint8"), 784)
            file.write(struct.pack(">IIII", 2051, size, 28, 28) + pixels.tobytes())
        with gzip.open(os.path.join(folder, part + "-labels-idx1-ubyte.gz"), "wb") as file:
            file.write(struct.pack(">II", 2049, size) + (np.arange(size, dtype="uint8") % 10).tobytes())


@feature
def mnist_input_data():
    from tensorflow.examples.tutorials.mnist import input_data

    folder = tempfile.mkdtemp()
    write_mnist(folder)
    mnist = input_data.read_data_sets(folder, one_hot=True, validation_size=5)
    assert [d.num_examples for d in (mnist.train, mnist.validation, mnist.test)] == [15, 5, 6]
    images, labels = mnist.train.next_batch(10)
    assert images.shape == (10, 784) and labels.shape == (10, 10) and images.dtype == np.float32
    np.testing.assert_array_equal(np.round(images[:, 0] * 255) % 10, labels.argmax(1))
    images, labels = mnist.train.next_batch(10)
    assert images.shape == (10, 784) and mnist.train.epochs_completed == 1
    again = input_data.read_data_sets(folder, reshape=False, validation_size=0, seed=3)
    assert again.train.images.shape == (20, 28, 28, 1) and again.test.labels.tolist() == list(range(6))


@feature
def mnist_files_are_missing():
    import tensorflow.examples.tutorials.mnist.input_data as input_data

    folder = tempfile.mkdtemp()
    error = error_of(lambda: input_data.read_data_sets(folder), FileNotFoundError)
    assert folder in error and "train-images-idx3-ubyte.gz" in error and "dataset.Mnist" in error


# Names that exist no more -----------------------------------------------------------------------------------------------
@feature
def unused_imports():
    import tensorpack.RL.envbase as env
    from tensorpack.dataflow.parallel import PlasmaGetData
    from tensorpack.RL import ProxyPlayer
    from tensorpack.utils.loadcaffe import get_caffe_pb

    class Player(ProxyPlayer):
        pass

    assert not isinstance(3, ProxyPlayer)
    assert "gymnasium" in error_of(Player, NotImplementedError)
    assert "gymnasium" in error_of(lambda: env.RLEnvironment(), NotImplementedError)
    assert "shared memory" in error_of(lambda: PlasmaGetData(1), NotImplementedError)
    assert "caffe.proto" in error_of(get_caffe_pb, NotImplementedError)


@feature
def unused_imports_of_tensorflow():
    if IS_TF1:
        return  # which has these modules
    import tensorflow.contrib.tensorrt as trt
    from tensorflow.contrib.learn.python.learn.datasets import base
    from tensorflow.contrib.training import FeedingQueueRunner, HParams

    assert "tensorrt" in error_of(lambda: trt.create_inference_graph(), NotImplementedError)
    assert "trainers" in error_of(lambda: base.load_csv_with_header(), AttributeError)
    assert "DataFlow" in error_of(lambda: FeedingQueueRunner(), NotImplementedError)
    assert HParams(a=1).a == 1
    assert not hasattr(tf.contrib, "tensorrt")
    if not hasattr(tf, "estimator"):
        import tensorflow.estimator as estimator

        assert "2.15" in error_of(lambda: estimator.Estimator(), NotImplementedError)
        assert "2.15" in error_of(lambda: tf.estimator, AttributeError)


@feature
def private_names():
    from tensorflow.python.framework import graph_util, ops, tensor_shape

    @ops.RegisterShape("NoSuchOperation")
    def shape(op):
        return [tensor_shape.scalar(), tensor_shape.vector(3), tensor_shape.matrix(2, None)]

    assert [s.as_list() for s in shape(None)] == [[], [3], [2, None]]
    v = tf.get_variable("v", initializer=2.0)
    out = tf.multiply(v, 2.0, name="out")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        frozen = graph_util.convert_variables_to_constants(
            sess, tf.get_default_graph().as_graph_def(), ["out"]
        )
    assert not any("Variable" in node.op for node in frozen.node) and out is not None


@feature
def names_of_tensorflow_2():
    if not IS_TF1:
        tf.random.set_seed(1)
        assert tf.nn.silu(tf.constant(0.0)).dtype == tf.float32


@feature
def contrib_compiler():
    from tensorflow.contrib.compiler import jit, xla

    with jit.experimental_jit_scope(compile_ops=False):
        y = tf.constant(1.0) + 1.0
    assert run(y) == [2.0]
    assert callable(xla.compile)


# Behavior ----------------------------------------------------------------------------------------------------------------
@feature
def whole_floats():
    w = tf.get_variable("w", [3, 3, 8 / 2, np.float32(2)])
    assert w.shape.as_list() == [3, 3, 4, 2]
    x = tf.placeholder(tf.float32, [None, 8 / 2])
    y = tf.placeholder(tf.float32)
    y.set_shape([None, 4.0])
    assert x.shape.as_list() == y.shape.as_list() == [None, 4] == tf.TensorShape([None, 4.0]).as_list()
    assert tf.TensorSpec([2.0], tf.float32).shape.as_list() == [2]
    tf.nn.rnn_cell.GRUCell(8 / 2)(tf.zeros([2, 3]), tf.zeros([2, 4]))
    tf.contrib.slim.separable_conv2d(tf.zeros([2, 8, 8, 3]), 4, [3, 3], depth_multiplier=1.0)
    error_of(lambda: tf.TensorShape([4.5]), ValueError if IS_TF1 else TypeError)


@feature
def augmented_assignment():
    from tensorpack import TowerContext

    with TowerContext("", is_training=True):
        b = variable = tf.get_variable("b", initializer=2.0)
    b += 1.0
    b *= 2.0
    assert run(b, variable) == [6.0, 2.0]


@feature
def static_batch_of_conv2d_transpose():
    x = tf.placeholder(tf.float32, [None, 4, 4, 3])
    y = tf.nn.conv2d_transpose(x, tf.zeros([3, 3, 8, 3]), [8, 8, 8, 8], [1, 2, 2, 1])
    assert y.shape.as_list() == [8, 8, 8, 8]
    free = tf.nn.conv2d_transpose(
        x, tf.zeros([3, 3, 8, 3]), tf.stack([tf.shape(x)[0], 8, 8, 8]), [1, 2, 2, 1]
    )
    assert free.shape.as_list() == [None, 8, 8, 8]


@feature
def type_of_a_tensor():
    assert type(tf.placeholder(tf.float32)) is tf.Tensor
    assert isinstance(tf.constant(1.0) + 1.0, tf.Tensor)
    assert not isinstance(tf.get_variable("v", [1]), tf.Tensor)


@feature
def flag_log_dir():
    tf.app.flags.DEFINE_string("log_dir", "train_log", "")
    tf.app.flags.DEFINE_integer("v", 3, "")
    assert tf.app.flags.FLAGS.log_dir == "train_log"


@feature
def grouped_convolution():
    images = np.random.RandomState(0).rand(2, 6, 6, 4).astype("float32")
    w = tf.get_variable("w", [3, 3, 2, 6])
    first = tf.nn.conv2d(
        tf.constant(images.transpose(0, 3, 1, 2)), w, [1, 1, 1, 1], "SAME", data_format="NCHW"
    )
    last = tf.nn.conv2d(tf.constant(images), w, [1, 1, 1, 1], "SAME", name="grouped")
    groups = zip(tf.split(tf.constant(images), 2, 3), tf.split(w, 2, 3))
    expected = tf.concat([tf.nn.conv2d(x, k, [1, 1, 1, 1], "SAME") for x, k in groups], 3)
    assert last.op.name == "grouped"
    outputs = [tf.nn.relu(y) for y in (tf.transpose(first, [0, 2, 3, 1]), last, expected)]
    values = run(*outputs, *[tf.gradients(y**2, w)[0] for y in outputs])
    for value in values[:2]:
        np.testing.assert_allclose(value, values[2], atol=1e-5)
    for value in values[3:5]:
        np.testing.assert_allclose(value, values[5], atol=1e-4)


# tensorpack --------------------------------------------------------------------------------------------------------------
@feature
def star_names():
    names = {}
    exec("from tensorpack import *", names)
    for name in (
        "change_gpu",
        "get_nr_gpu",
        "symbolic_functions",
        "dftools",
        "dataset",
        "imgaug",
        "InputDesc",
    ):
        assert name in names, name
    assert names["get_nr_gpu"]() >= 0
    assert callable(names["symbolic_functions"].prediction_incorrect)
    assert callable(names["dftools"].dump_dataflow_to_lmdb)


@feature
def a_model_without_subclass():
    from tensorpack import ModelDesc, TrainConfig

    config = TrainConfig(model=ModelDesc(), dataflow=None, data=None, steps_per_epoch=1)
    assert isinstance(config.model, ModelDesc)


@feature
def inputs_of_a_model():
    from tensorpack import InputDesc, ModelDesc

    class Model(ModelDesc):
        def _get_inputs(self):
            return [InputDesc(tf.float32, (None, 3), "x")]

    (desc,) = Model().get_inputs_desc()
    x = desc.build_placeholder_reuse()
    assert x is desc.build_placeholder_reuse() and x.op.name == "x"
    assert (desc.type, desc.shape.as_list(), desc.name) == (tf.float32, [None, 3], "x")


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
