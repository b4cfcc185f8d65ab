"""With `cpu_layout.install`, operations on channels-first images compute on a CPU what they compute on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite import models
from tensorpack_lite.compat import cpu_layout, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import TowerContext

pytestmark = pytest.mark.law

IMAGES, VOLUMES = (2, 6, 8, 4), (2, 4, 6, 4, 3)
KERNEL, DEPTHWISE, VOLUME = (3, 3, 4, 5), (3, 3, 4, 2), (2, 2, 2, 3, 5)


@pytest.fixture
def installed():
    """Channels-first images run on the CPU during the test."""
    cpu_layout.install()
    yield
    cpu_layout.uninstall()


class Case:
    """One operation as `build(images, weights, first)`; `first` tells whether channels come first."""

    def __init__(self, name, build, images=IMAGES, weights=(4,), differentiable=True):
        self.name, self.build, self.images, self.weights = name, build, images, weights
        self.differentiable = differentiable


def axes(first, *values):
    """One value for each axis, with 1 for the batch and the channels."""
    return [1, 1, *values] if first else [1, *values, 1]


def layout(first, rank=4):
    """The data format of this rank."""
    return {"data_format": ("NC" + "DHW"[5 - rank :]) if first else "N" + "DHW"[5 - rank :] + "C"}


def convolve(padding, strides=(2, 1), dilations=(1, 1)):
    """A function that builds tf.nn.conv2d."""

    def build(x, w, first):
        border = padding
        if padding == "EXPLICIT":
            border = [[0, 0], [0, 0], [1, 2], [0, 1]] if first else [[0, 0], [1, 2], [0, 1], [0, 0]]
        return tf.nn.conv2d(
            x,
            w,
            axes(first, *strides),
            border,
            dilations=axes(first, *dilations),
            name="named",
            **layout(first),
        )

    return build


def pool(function, padding, rank=4):
    """A function that builds a pooling."""

    def build(x, w, first):
        sizes, strides = axes(first, *(3, 2, 2)[: rank - 2]), axes(first, *(2, 1, 2)[: rank - 2])
        return function(x, sizes, strides, padding, name="named", **layout(first, rank))

    return build


def conv2d_transpose(x, w, first):
    """Transposed convolution to an image of unknown batch size."""
    batch = tf.shape(x)[0]
    shape = [batch, 5, 12, 8] if first else [batch, 12, 8, 5]
    return tf.nn.conv2d_transpose(x, w, tf.stack(shape), axes(first, 2, 1), "SAME", name="named", **layout(first))


def conv3d_transpose(x, w, first):
    """Transposed convolution to volumes of known size."""
    shape = [2, 5, 8, 6, 4] if first else [2, 8, 6, 4, 5]
    return tf.nn.conv3d_transpose(x, w, shape, axes(first, 2, 1, 1), "SAME", name="named", **layout(first, 5))


def batch_norm(is_training):
    """A function that builds tf.nn.fused_batch_norm."""

    def build(x, w, first):
        moments = {} if is_training else {"mean": w * 0.1, "variance": w * w + 1.0}
        return tf.nn.fused_batch_norm(
            x, w, w + 1.0, epsilon=1e-3, is_training=is_training, name="named", **moments, **layout(first)
        )[0]

    return build


CASES = [
    Case("conv2d SAME", convolve("SAME"), weights=KERNEL),
    Case("conv2d VALID", convolve("VALID"), weights=KERNEL),
    Case("conv2d EXPLICIT", convolve("EXPLICIT"), weights=KERNEL),
    # Without `install`, only oneDNN has gradients of dilated convolutions on a CPU.
    Case("conv2d dilated", convolve("SAME", (1, 1), (1, 2)), weights=KERNEL),
    Case("conv2d dilated VALID", convolve("VALID", (1, 1), (2, 1)), weights=KERNEL),
    Case("conv2d_transpose", conv2d_transpose, weights=(3, 3, 5, 4)),
    Case("depthwise_conv2d",
         lambda x, w, first: tf.nn.depthwise_conv2d(x, w, axes(first, 2, 2), "SAME", name="named", **layout(first)),
         weights=DEPTHWISE),
    Case("convolution",
         lambda x, w, first: tf.nn.convolution(x, w, "SAME", dilation_rate=[1, 2], name="named", **layout(first)),
         weights=KERNEL),
    Case("conv3d",
         lambda x, w, first: tf.nn.conv3d(x, w, axes(first, 1, 2, 1), "VALID", name="named", **layout(first, 5)),
         VOLUMES, VOLUME),
    Case("conv3d_transpose", conv3d_transpose, VOLUMES, (2, 2, 2, 5, 3)),
    Case("max_pool SAME", pool(tf.nn.max_pool, "SAME")),
    Case("max_pool VALID", pool(tf.nn.max_pool, "VALID")),
    Case("avg_pool", pool(tf.nn.avg_pool, "SAME")),
    Case("max_pool3d", pool(tf.nn.max_pool3d, "SAME", 5), VOLUMES),
    Case("avg_pool3d", pool(tf.nn.avg_pool3d, "VALID", 5), VOLUMES),
    Case("bias_add", lambda x, w, first: tf.nn.bias_add(x, w, name="named", **layout(first))),
    Case("depth_to_space", lambda x, w, first: tf.depth_to_space(x, 2, name="named", **layout(first))),
    Case("space_to_depth", lambda x, w, first: tf.space_to_depth(x, 2, name="named", **layout(first))),
    Case("fused_batch_norm training", batch_norm(True)),
    Case("fused_batch_norm inference", batch_norm(False)),
]  # fmt: skip
BY_NAME = {case.name: case for case in CASES}


def last_to_first(array):
    """Move the channels of an array to the front."""
    return np.moveaxis(array, -1, 1) if array.ndim > 3 else array


def compute(case, first, dtype="float32", known=False):
    """Return the output of an operation, and the gradients with respect to images and weights."""
    random = np.random.RandomState(0)
    pixels, weights = (
        random.normal(size=case.images).astype(dtype),
        random.normal(size=case.weights).astype(dtype),
    )
    pixels = last_to_first(pixels) if first else pixels
    channel_axis = 1 if first else pixels.ndim - 1
    shape = [size if known or axis == channel_axis else None for axis, size in enumerate(pixels.shape)]
    with tf.Graph().as_default(), tf.Session() as session:
        x, w = tf.placeholder(dtype, shape), tf.constant(weights)
        y = case.build(x, w, first)
        fetches = [y]
        if case.differentiable:
            fetches += [g for g in tf.gradients(tf.reduce_sum(tf.sin(y)), [x, w]) if g is not None]
        return session.run(fetches, {x: pixels})


@pytest.mark.parametrize("name", BY_NAME)
def test_values_and_gradients(name, installed):
    """An operation on channels-first images of unknown sizes has the values and gradients of the channels-last one."""
    case = BY_NAME[name]
    for actual, expected in zip(compute(case, first=True), compute(case, first=False)):
        expected = expected if expected.shape == case.weights else last_to_first(expected)
        np.testing.assert_allclose(expected, actual, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", ["conv2d SAME", "conv2d_transpose", "max_pool SAME", "avg_pool", "depth_to_space"])
def test_other_dtypes(name, dtype, installed):
    """Dtypes that only the channels-last kernels support work, and are kept."""
    case, tolerance = BY_NAME[name], 1e-9 if dtype == "float64" else 2e-2
    for actual, expected in zip(compute(case, first=True, dtype=dtype), compute(case, first=False, dtype=dtype)):
        expected = expected if expected.shape == case.weights else last_to_first(expected)
        assert dtype == actual.dtype
        np.testing.assert_allclose(expected, actual, rtol=tolerance, atol=tolerance)


def describe(case, known):
    """Return the name, static shape and dtype of the output, built in a scope, with another operation of the name."""
    images = list(last_to_first(np.empty(case.images)).shape)
    shape = images if known else [None, images[1], *[None] * (len(images) - 2)]
    with tf.Graph().as_default():
        x, w = tf.placeholder(tf.float32, shape), tf.placeholder(tf.float32, case.weights)
        with tf.name_scope("scope"):
            outputs = [case.build(x, w, True) for _ in range(2)]
        return [(y.name, y.shape.as_list(), y.dtype) for y in outputs]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", BY_NAME)
def test_name_and_static_shape(name, known):
    """The output has the name, static shape and dtype that it has without `install`."""
    expected = describe(BY_NAME[name], known)
    cpu_layout.install()
    try:
        assert expected == describe(BY_NAME[name], known)
    finally:
        cpu_layout.uninstall()


def test_default_names(installed):
    """Operations without a name are named by their type."""
    x, w = tf.zeros([1, 4, 8, 8]), tf.zeros(KERNEL)
    names = [tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME", data_format="NCHW").op.name for _ in range(2)]
    outputs, *_ = tf.nn.fused_batch_norm(x, tf.ones([4]), tf.zeros([4]), data_format="NCHW")
    assert ["Conv2D", "Conv2D_1", "FusedBatchNormV3"] == [*names, outputs.op.name]


def test_gradients_of_a_filter(sess, installed):
    """`tf.nn.conv2d_backprop_filter` returns a filter, which is not transposed."""
    x, gradients = (np.random.RandomState(i).normal(size=(2, 4, 6, 8)).astype("float32") for i in range(2))
    first = tf.nn.conv2d_backprop_filter(
        x, [3, 3, 4, 4], gradients, [1, 1, 1, 1], "SAME", data_format="NCHW", name="filter"
    )
    x, gradients = (np.moveaxis(array, 1, -1) for array in (x, gradients))
    last = tf.nn.conv2d_backprop_filter(x, [3, 3, 4, 4], gradients, [1, 1, 1, 1], "SAME", data_format="NHWC")
    assert "filter:0" == first.name
    np.testing.assert_allclose(*sess.run([last, first]), rtol=1e-5, atol=1e-5)


def test_moments_of_batch_norm(sess, installed):
    """In training, `tf.nn.fused_batch_norm` returns the moments of each channel."""
    x = np.random.RandomState(0).normal(size=(4, 3, 5, 5)).astype("float32")
    _, mean, variance = tf.nn.fused_batch_norm(x, tf.ones([3]), tf.zeros([3]), data_format="NCHW")
    np.testing.assert_allclose(x.mean((0, 2, 3)), sess.run(mean), atol=1e-6)
    np.testing.assert_allclose(x.var((0, 2, 3), ddof=1), sess.run(variance), rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5, 6)])
def test_bias_of_other_ranks(shape, sess, installed):
    """`tf.nn.bias_add` with "NCHW" adds to axis 1 of volumes and sequences too."""
    x, bias = np.zeros(shape, "float32"), np.arange(3, dtype="float32")
    y = tf.nn.bias_add(x, bias, data_format="NCHW")
    np.testing.assert_array_equal(np.broadcast_to(bias.reshape(-1, *[1] * (len(shape) - 2)), shape), sess.run(y))


def test_inside_a_loop(sess, installed):
    """The operations and their gradients work inside `tf.while_loop`."""
    x, w = tf.ones([1, 2, 5, 5]), tf.fill([3, 3, 2, 2], 0.1)

    def body(i, images):
        return i + 1, tf.nn.conv2d(images, w, [1, 1, 1, 1], "SAME", data_format="NCHW")

    _, looped = tf.while_loop(lambda i, _: i < 2, body, [0, x])
    repeated = body(1, body(0, x)[1])[1]
    (expected, slope), (actual, looped_slope) = ([y, tf.gradients(y, w)[0]] for y in (repeated, looped))
    np.testing.assert_allclose(*sess.run([expected, actual]), rtol=1e-5)
    np.testing.assert_allclose(*sess.run([slope, looped_slope]), rtol=1e-5)


def test_intermediate_tensors(sess, installed):
    """An intermediate result can be fetched and fed, and gradients can be computed with respect to it."""
    x = tf.placeholder_with_default(tf.ones([1, 1, 4, 4]), [1, 1, 4, 4])
    y = tf.nn.conv2d(x, tf.ones([1, 1, 1, 1]), [1, 1, 1, 1], "SAME", data_format="NCHW")
    z = tf.nn.max_pool(y, [1, 1, 2, 2], [1, 1, 2, 2], "SAME", data_format="NCHW")
    fed, slope = sess.run([z, tf.gradients(z, y)[0]], {y: np.arange(16).reshape(1, 1, 4, 4)})
    fetched, pooled = sess.run([y, z])
    assert (16, 4) == (fetched.sum(), pooled.sum())
    assert [5, 7, 13, 15] == fed.ravel().tolist()
    assert [5, 7, 13, 15] == np.flatnonzero(slope).tolist()


def test_invalid_strides_are_reported_by_tensorflow(installed):
    """Strides of a wrong length raise TensorFlow's error."""
    with pytest.raises(ValueError, match="strides"):
        tf.nn.conv2d(tf.zeros([1, 2, 5, 5]), tf.zeros([1, 1, 2, 2]), [1, 1, 1], "SAME", data_format="NCHW")


class TestLayers:
    @pytest.fixture(autouse=True)
    def claimed_gpu(self, monkeypatch, installed):
        """The script sets CUDA_VISIBLE_DEVICES, so the library's layers count a GPU and do not transpose themselves."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        monkeypatch.setattr("tensorpack_lite.utils.gpu.count_gpus", lambda: None)

    def build(self, x, data_format):
        """Two layers of each kind; return the output."""
        for name in "ab":
            x = models.Conv2D(f"conv{name}", x, 4, 3, data_format=data_format, activation=tf.nn.relu)
            x = models.BatchNorm(f"bn{name}", x, data_format=data_format)
            x = models.MaxPooling(f"pool{name}", x, 2, data_format=data_format)
        return models.Conv2DTranspose("up", x, 3, 3, strides=2, data_format=data_format)

    @pytest.mark.parametrize("is_training", [True, False])
    def test_stack(self, is_training, sess):
        """A stack of the library's layers computes the same in both formats, with gradients and names."""
        pixels = tf.constant(np.random.RandomState(0).normal(size=(2, 12, 8, 3)).astype("float32"))
        with TowerContext("", is_training=is_training):
            last = self.build(pixels, "NHWC")
            with tf.name_scope("first"), tf.variable_scope(tf.get_variable_scope(), reuse=True):
                first = self.build(tf.transpose(pixels, [0, 3, 1, 2]), "NCHW")
        assert (last.name, "first/" + last.name) == ("up/output:0", first.name)
        assert [2, 3, 6, 4] == first.shape.as_list()
        variables = tf.trainable_variables()
        slopes = [tf.gradients(tf.reduce_sum(tf.sin(y)), variables) for y in (last, first)]
        sess.run(tf.global_variables_initializer())
        np.testing.assert_allclose(*sess.run([tf.transpose(last, [0, 3, 1, 2]), first]), rtol=1e-4, atol=1e-5)
        for expected, actual in zip(*sess.run(slopes)):
            np.testing.assert_allclose(expected, actual, rtol=1e-3, atol=1e-4)


SCRIPT = """
import importlib.util, os, sys
if importlib.util.find_spec("tf_keras"):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
from tensorpack_lite.compat import TF_VERSION, cpu_layout, ensure_graph_mode, tensorflow, tfv1 as tf

ensure_graph_mode()
if TF_VERSION < (2, 0):
    from tensorflow.contrib import slim
else:
    tf.disable_v2_behavior()
    if TF_VERSION >= (2, 16):
        import tf_keras.src.legacy_tf_layers as layers
        import tf_keras.src.legacy_tf_layers.base
        sys.modules["tf_keras.legacy_tf_layers"] = layers
        sys.modules["tf_keras.legacy_tf_layers.base"] = layers.base
    from tensorflow.python.framework import ops
    ops.Tensor = tf.Tensor  # tf_slim 1.1 needs it
    import tf_slim as slim
cpu_layout.install()

def by_layers(x, first, training):
    form = {"data_format": "channels_first" if first else "channels_last"}
    x = tf.layers.conv2d(x, 4, 3, padding="same", activation=tf.nn.relu, name="conv", reuse=tf.AUTO_REUSE, **form)
    x = tf.layers.conv2d(x, 4, 3, dilation_rate=2, name="dilated", reuse=tf.AUTO_REUSE, **form)
    x = tf.layers.separable_conv2d(x, 4, 3, name="separable", reuse=tf.AUTO_REUSE, **form)
    x = tf.layers.batch_normalization(
        x, 1 if first else 3, training=training, fused=True, name="bn", reuse=tf.AUTO_REUSE
    )
    x = tf.layers.max_pooling2d(x, 2, 2, **form)
    x = tf.layers.average_pooling2d(x, 2, 1, **form)
    return tf.layers.conv2d_transpose(x, 3, 3, 2, name="up", reuse=tf.AUTO_REUSE, **form)

def by_slim(x, first, training):
    form = {"data_format": "NCHW" if first else "NHWC"}
    with slim.arg_scope([slim.conv2d, slim.batch_norm, slim.max_pool2d, slim.conv2d_transpose], **form):
        norm = {"is_training": training, "fused": True, "updates_collections": None}
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm, normalizer_params=norm):
            x = slim.conv2d(x, 4, 3, scope="one", reuse=tf.AUTO_REUSE)
            x = slim.max_pool2d(x, 2)
            x = slim.conv2d(x, 4, 3, 2, scope="two", reuse=tf.AUTO_REUSE)
        return slim.conv2d_transpose(x, 3, 3, 2, scope="up", reuse=tf.AUTO_REUSE)

pixels = tf.placeholder(tf.float32, [None, 16, 16, 3])
value = {pixels: np.random.RandomState(0).normal(size=(2, 16, 16, 3))}
for build in (by_layers, by_slim):
    for training in (True, False):
        last = build(pixels, False, training)
        first = build(tf.transpose(pixels, [0, 3, 1, 2]), True, training)
        assert first.shape.as_list() == [last.shape.as_list()[axis] for axis in (0, 3, 1, 2)], (first, last)
        slopes = [tf.gradients(tf.reduce_sum(tf.sin(y)), tf.trainable_variables(), unconnected_gradients="zero")
                  for y in (last, first)]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            before, after = session.run([tf.transpose(last, [0, 3, 1, 2]) * 1.0, first], value)
            np.testing.assert_allclose(before, after, rtol=1e-4, atol=1e-5)
            for before, after in zip(*session.run(slopes, value)):
                np.testing.assert_allclose(before, after, rtol=1e-3, atol=1e-4)
        print("equal", build.__name__, training)
"""


@pytest.mark.slow
def test_tf_layers_and_slim(start_python):
    """tf.layers and slim compute the same in both formats, in training and inference, with gradients."""
    process = start_python("-c", SCRIPT)
    output, _ = process.communicate(timeout=300)
    lines = ["equal by_layers True", "equal by_layers False", "equal by_slim True", "equal by_slim False"]
    assert lines == output.splitlines()


class TestInstall:
    def functions(self):
        """The functions that `install` may replace, wherever TensorFlow refers to them."""
        return [
            (module, name, value)
            for module in cpu_layout._MODULES
            for name, value in vars(module).items()
            if callable(value)
        ]

    def test_uninstall(self):
        """`uninstall` restores all functions, also after two calls of `install`."""
        before = self.functions()
        cpu_layout.install()
        once = self.functions()
        cpu_layout.install()
        assert all(one[2] is two[2] for one, two in zip(once, self.functions()))
        assert any(one[2] is not two[2] for one, two in zip(once, before))
        cpu_layout.uninstall()
        assert all(one[2] is two[2] for one, two in zip(before, self.functions()))
        assert len(before) == len(self.functions())

    def test_channels_last_is_unchanged(self):
        """Channels-last operations that have gradients on every CPU create the same graph as without `install`."""

        def graph():
            with tf.Graph().as_default() as built:
                for case in (case for case in CASES if "dilated" not in case.name):
                    images = tf.zeros(case.images)
                    case.build(images, tf.zeros(case.weights), False)
            return built.as_graph_def()

        before = graph()
        cpu_layout.install()
        try:
            assert before == graph()
        finally:
            cpu_layout.uninstall()

    def test_raw_ops(self, sess, installed):
        """`tf.raw_ops` takes channels-first images too."""
        x = tf.constant(np.arange(16, dtype="float32").reshape(1, 1, 4, 4))
        y = tensorflow.raw_ops.MaxPool(
            input=x, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="VALID", data_format="NCHW"
        )
        assert [[[[5, 7], [13, 15]]]] == sess.run(y).tolist()


@pytest.mark.parametrize("first", [True, False])
def test_grouped_convolution(installed, sess, first):
    """A grouped convolution, in both layouts, has the values and gradients of one convolution for each group."""
    random = np.random.RandomState(0)
    images, kernel = random.rand(2, 6, 6, 4).astype("float32"), random.rand(3, 3, 2, 6).astype("float32")
    x, w = tf.constant(images), tf.constant(kernel)
    groups = zip(tf.split(x, 2, 3), tf.split(w, 2, 3))
    expected = tf.concat([tf.nn.conv2d(*group, [1, 2, 1, 1], "SAME") for group in groups], 3)
    if first:
        y = tf.nn.conv2d(tf.transpose(x, [0, 3, 1, 2]), w, [1, 1, 2, 1], "SAME", data_format="NCHW", name="named")
        assert [2, 6, 3, 6] == y.shape.as_list()
        y = tf.transpose(y, [0, 2, 3, 1])
    else:
        y = tf.nn.conv2d(x, w, [1, 2, 1, 1], "SAME", name="named")
    assert "named" in [op.name for op in tf.get_default_graph().get_operations()]
    results = [tf.nn.relu(one) for one in (expected, y)]
    gradients = [tf.gradients(one**2, [x, w]) for one in results]
    (a, b), (da, db) = sess.run([results, gradients])
    np.testing.assert_allclose(a, b, atol=1e-5)
    for one, other in zip(da, db):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
