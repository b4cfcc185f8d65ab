"""Laws that hold for every public layer, with the calls in `layer_rows.py`."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from conformance.layer_rows import ROWS

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.tower.context import TowerContext

pytestmark = pytest.mark.law

# 1e-4 because the fused kernel's epsilon is 1.001e-5
TOLERANCE = {np.float16: 3e-2, np.float32: 1e-4, np.float64: 1e-4}


def rows(chosen=ROWS):
    return pytest.mark.parametrize("row", chosen, ids=str)


class Built:
    """A layer in a tower, with random variables and a placeholder as input."""

    def __init__(self, row, training=True, dtype=np.float32, build=None):
        self.rng = np.random.RandomState(zlib.crc32(str(row).encode()))
        self.value = self.rng.uniform(-1, 1, row.shape).astype(dtype)
        self.x = tf.placeholder(dtype, [None] + list(row.shape[1:]), "x")
        self.context = TowerContext("", is_training=training)
        with self.context:
            self.output = (build or row.build)(self.x)
        self.variables = {v.op.name[len("layer/") :]: v for v in tf.global_variables()}
        self.session = tf.Session()
        self.feeds = {self.x: self.value}

    def randomize(self):
        """Set the variables to values in (0.5, 1.5), and return these as float64."""
        values = {}
        for name in sorted(self.variables):
            var = self.variables[name]
            values[name] = self.rng.uniform(0.5, 1.5, var.shape.as_list()).astype(var.dtype.as_numpy_dtype)
            var.load(values[name], self.session)
        return {name: np.asarray(value, np.float64) for name, value in values.items()}

    def run(self, fetches=None, value=None):
        feeds = self.feeds if value is None else {**self.feeds, self.x: value}
        return self.session.run(self.output if fetches is None else fetches, feeds)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.session.close()


def check_oracle(row, training=True, build=None):
    """Check the variables of a layer, and its output against the NumPy function."""
    with Built(row, training, build=build) as built:
        values = built.randomize()
        assert row.variables == {name: tuple(var.shape.as_list()) for name, var in built.variables.items()}
        expected = row.oracle(built.value.astype(np.float64), values, training)
        np.testing.assert_allclose(expected, built.run(), rtol=1e-3, atol=1e-4)


def test_every_public_layer_has_a_row():
    """Every public name that is registered as a layer has a row in the table."""
    layers = {name for name in models.__all__ if hasattr(getattr(models, name), "__argscope_enabled__")}
    assert {row.name for row in ROWS} == layers


@rows()
@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
def test_it_equals_numpy(row, training):
    """The output equals that of the NumPy function, in training and in inference."""
    check_oracle(row, training)


@rows()
def test_the_static_shape_is_the_real_one(row):
    """The static shape equals the shape at run time; only the batch size is unknown."""
    with Built(row) as built:
        built.randomize()
        real = list(built.run().shape)
        static = built.output.shape.as_list()
        assert real[1:] == static[1:]
        assert static[0] in (None, real[0])


@rows()
def test_names_shapes_and_collections(row):
    """Variables and output are named and collected as documented."""
    with Built(row) as built:
        assert row.variables == {name: tuple(var.shape.as_list()) for name, var in built.variables.items()}
        trained = {v.op.name[len("layer/") :] for v in tf.trainable_variables()}
        assert set(row.variables) - set(row.averages) == trained
        collected = [v.op.name[len("layer/") :] for v in tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)]
        assert list(row.averages) == collected
        assert row.updates == len(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        assert row.output == built.output.op.name
        assert [] == tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)


@rows([row for row in ROWS if row.variables and row.name != "BNReLU"])
def test_the_output_holds_the_variables(row):
    """`output.variables` has the variables of the layer."""
    with Built(row) as built:
        held = built.output.variables.all()
        own = [var for name, var in built.variables.items() if not name.startswith("bn/")]
        if row.name == "BatchRenorm":
            own = [v for v in own if v.op.name.split("/")[1] in ("gamma", "beta", "moving_mean", "moving_variance")]
        assert {v.op.name for v in own} == {v.op.name for v in held}
        assert all(any(var is h for h in held) for var in own)


@rows()
def test_reuse_shares(row):
    """A second call in the same scope creates no variables and computes the same."""

    @auto_reuse_variable_scope
    def model(x):
        return row.build(x)

    def twice(x):
        return [model(x), model(x)]

    with Built(row, training=False, build=lambda x: tf.stack(twice(x))) as built:
        assert len(row.variables) == len(built.variables)
        built.variables = {v.op.name: v for v in tf.global_variables()}
        built.randomize()
        first, second = built.run()
        np.testing.assert_array_equal(first, second)


@rows([row for row in ROWS if row.data_format])
@pytest.mark.parametrize("scoped", [False, True], ids=["argument", "argscope"])
def test_nchw_equals_nhwc(row, scoped):
    """With NCHW, from an argument or an argscope, a layer computes the same for transposed images."""
    option = {"data_format": "NCHW"}

    def transposed(x):
        with argscope(row.layer, **(option if scoped else {})):
            output = row.build(tf.transpose(x, [0, 3, 1, 2]), **({} if scoped else option))
        return tf.transpose(output, [0, 2, 3, 1]) if output.shape.ndims == 4 else output

    check_oracle(row, training=not scoped, build=transposed)


@rows([row for row in ROWS if row.kwargs])
def test_argscope_applies(row):
    """Arguments from argscope have the same effect as those of a call."""

    def build(x):
        with argscope(row.layer, **row.kwargs):
            return row.call(x)

    check_oracle(row, build=build)


@rows()
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_the_dtype_follows_the_input(row, dtype):
    """Output and variables have the dtype of the input; statistics of float16 are float32."""
    with Built(row, dtype=dtype) as built:
        values = built.randomize()
        assert built.output.dtype == dtype
        narrow = {"W", "b"}
        for name, var in built.variables.items():
            wide = row.wide and name not in narrow and dtype == np.float16
            assert var.dtype.base_dtype == (np.float32 if wide else dtype), name
        expected = row.oracle(built.value.astype(np.float64), values, True)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(expected / scale, built.run() / scale, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("row", "training"),
    [
        pytest.param(row, training, marks=[pytest.mark.slow] if "stacked" in str(row) else [])
        for row in ROWS
        for training in (True, False)
        if (row.smooth if training else row.updates or not row.smooth)
    ],
    ids=lambda value: str(value) if isinstance(value, type(ROWS[0])) else ["inference", "training"][value],
)
def test_the_gradient_is_that_of_finite_differences(row, training):
    """Gradients equal finite differences in float64, along a random direction."""
    with Built(row, training, dtype=np.float64) as built:
        # TensorFlow 2 cannot differentiate a loop after a session has run it, so gradients come first
        weights = tf.placeholder(tf.float64, built.output.shape)
        cost = tf.reduce_sum(built.output * weights)
        trained = list(tf.trainable_variables())
        grads = tf.gradients(cost, [built.x, *trained])
        built.randomize()
        built.feeds[weights] = built.rng.uniform(-1, 1, built.run().shape)
        values = [built.value, *built.session.run(trained)]
        directions = [built.rng.uniform(-1, 1, np.shape(value)) for value in values]
        slope = sum(np.sum(g * d) for g, d in zip(built.run(grads), directions))

        def cost_at(step):
            for var, value, direction in zip(trained, values[1:], directions[1:]):
                var.load(value + step * direction, built.session)
            return built.run(cost, values[0] + step * directions[0])

        step = 1e-6
        np.testing.assert_allclose((cost_at(step) - cost_at(-step)) / (2 * step), slope, rtol=1e-4, atol=1e-6)
