"""Mixed precision of every layer: dtypes of outputs and variables, and gradients against float64."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.layers import LAYERS, build_layer, inputs_of

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import (
    BatchNorm,
    Conv2D,
    FullyConnected,
    l2_regularizer,
    regularize_cost_from_collection,
)
from tensorpack_lite.tfutils.precision import precision_scope
from tensorpack_lite.tfutils.tower.context import TowerContext

# name -> dtype, the distance from 1 to the next number
PRECISIONS = {"mixed_float16": (tf.float16, 2.0**-10), "mixed_bfloat16": (tf.bfloat16, 2.0**-7)}
NARROW = {"Conv2D", "Conv2DTranspose"}  # return 16 bits
WIDE = {
    "FullyConnected",
    "GlobalAvgPooling",
    "GRU",
    "LSTM",
    "MultiHeadAttention",
}  # return float32; all others return the dtype of their inputs

every_layer = pytest.mark.parametrize("layer", sorted(LAYERS))
every_precision = pytest.mark.parametrize(
    "precision",
    [
        "mixed_float16",
        pytest.param(
            "mixed_bfloat16",
            marks=pytest.mark.skipif(TF_VERSION < (2, 0), reason="TensorFlow 1.15 has no such kernels"),
        ),
    ],
)


def build(layer, x, precision):
    with TowerContext("", is_training=True), precision_scope(precision):
        return build_layer(layer, x)


@pytest.mark.law
@every_precision
@every_layer
@pytest.mark.parametrize("is_narrow", [False, True])
def test_dtypes(fresh_graph, layer, precision, is_narrow):
    """Image layers return 16 bits, layers before a cost float32, others the dtype of their inputs; variables are float32."""
    dtype, _ = PRECISIONS[precision]
    x = tf.cast(inputs_of(layer), dtype if is_narrow else tf.float32)
    y = build(layer, x, precision)
    expected = dtype if layer in NARROW else tf.float32 if layer in WIDE else x.dtype
    assert expected == y.dtype
    variables = {var.op.name: var.dtype.base_dtype for var in tf.global_variables()}
    assert {tf.float32} >= set(variables.values())
    with tf.Graph().as_default(), TowerContext("", is_training=True):
        build_layer(layer, inputs_of(layer))
        assert {var.op.name for var in tf.global_variables()} == set(variables)


@pytest.mark.law
@every_precision
@pytest.mark.parametrize("layer", sorted({*NARROW, *WIDE} - {"GlobalAvgPooling"}))
def test_products_are_narrow(layer, precision):
    """All products of matrices and convolutions of a layer, and those of its gradients, have operands rounded to 16 bits."""
    x = inputs_of(layer)
    y = build(layer, x, precision)
    tf.gradients(y, [x, *tf.trainable_variables()])
    products = [op for op in operations(tf.get_default_graph()) if op.type.startswith(("MatMul", "Conv2D"))]
    assert products
    floating = {narrow_dtype(tensor) for op in products for tensor in op.inputs if tensor.dtype.is_floating}
    assert {PRECISIONS[precision][0]} == floating


def narrow_dtype(tensor):
    """Return the dtype of a tensor; of one that a CPU multiplies in float32, that to which it was rounded."""
    while (
        tensor.op.type in ("Cast", "Identity", "Transpose", "Split", "SpaceToBatchND", "Reshape")
        and tensor.dtype == tf.float32
    ):
        tensor = tensor.op.inputs[1 if tensor.op.type == "Split" else 0]
    return tensor.dtype.base_dtype


def operations(graph):
    """Return the operations of a graph and of the functions that are its loops."""
    found = list(graph.get_operations())
    for name in getattr(graph, "_functions", {}):
        function = graph._get_function(name)
        inner = getattr(function, "graph", None)
        found += inner.get_operations() if inner is not None else []
    return found


@pytest.mark.law
@every_precision
@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(layer, marks=pytest.mark.slow if layer in ("GRU", "LSTM") else ())
        for layer in sorted(set(LAYERS) - {"Dropout"})
    ],
)
def test_gradients(sess, layer, precision):
    """The gradients for inputs and variables differ from those in float64 by a few roundings to 16 bits."""
    dtype, epsilon = PRECISIONS[precision]
    wide = tf.cast(tf.cast(inputs_of(layer), dtype), tf.float64)  # a value that 16 bits can represent
    narrow = tf.cast(wide, dtype)
    with TowerContext("", is_training=True):
        with precision_scope(precision):
            outputs = [build_layer(layer, narrow)]
        num = len(tf.trainable_variables())
        outputs.append(build_layer(layer, wide, name="y"))
    variables = [tf.trainable_variables()[:num], tf.trainable_variables()[num:]]
    weights = np.random.RandomState(1).standard_normal(outputs[0].shape.as_list())
    costs = [tf.reduce_sum(tf.cast(y, tf.float64) * weights) for y in outputs]
    gradients = [tf.gradients(cost, [x, *made]) for cost, x, made in zip(costs, (narrow, wide), variables)]
    sess.run(tf.global_variables_initializer())
    rounded = [tf.cast(tf.cast(var, dtype), tf.float32) for var in variables[0]]
    sess.run([var.assign(value) for var, value in zip(variables[0], rounded)])
    sess.run([to.assign(tf.cast(var, tf.float64)) for to, var in zip(variables[1], variables[0])])
    actual, expected = sess.run(gradients)
    for name, left, right in zip(["x", *(var.op.name for var in variables[0])], actual, expected):
        left = np.asarray(left, np.float64)
        assert np.linalg.norm(left - right) <= 8 * epsilon * np.linalg.norm(right) + 8 * epsilon, name


@every_precision
def test_a_part_in_float32(precision):
    """Layers in a scope "float32" inside another one compute in float32, also from inputs of 16 bits."""
    with TowerContext("", is_training=True), precision_scope(precision):
        x = Conv2D("conv0", inputs_of("Conv2D"), 4, 3)
        with precision_scope("float32"):
            y = BatchNorm("bn", Conv2D("conv1", x, 4, 3))
        z = Conv2D("conv2", y, 4, 3)
    dtype = PRECISIONS[precision][0]
    assert [dtype, tf.float32, dtype] == [x.dtype, y.dtype, z.dtype]
    convolution = tf.get_default_graph().get_operation_by_name("conv1/Conv2D")
    assert tf.float32 == convolution.inputs[0].dtype


@every_precision
def test_regularizers(sess, precision):
    """Costs of weights and of activations are computed in float32, from the values of the variables."""
    with TowerContext("", is_training=True), precision_scope(precision):
        Conv2D(
            *("conv", inputs_of("Conv2D"), 4, 3),
            kernel_regularizer=l2_regularizer(1.0),
            activity_regularizer=l2_regularizer(1.0),
        )
        cost = regularize_cost_from_collection()
    terms = [op for op in tf.get_default_graph().get_operations() if op.type == "L2Loss"]
    assert {tf.float32} == {op.inputs[0].dtype for op in terms}
    sess.run(tf.global_variables_initializer())
    assert np.isfinite(sess.run(cost))


@every_precision
def test_the_holder_has_the_variable(precision):
    """The attribute `variables` of an output has the float32 variables, not their casts."""
    with TowerContext("", is_training=True), precision_scope(precision):
        y = FullyConnected("fc", inputs_of("FullyConnected"), 3)
    assert tf.trainable_variables() == y.variables.all()


@pytest.mark.parametrize("options", [{"ema_update": "internal"}, {"virtual_batch_size": 2}, {}])
def test_averages_of_an_overflow(sess, options):
    """In float16, moments that are not finite do not change the averages of BatchNorm."""
    x = tf.placeholder(tf.float32, [4, 1])
    with TowerContext("", is_training=True), precision_scope("mixed_float16"):
        y = BatchNorm("bn", tf.cast(x, tf.float16), momentum=0.5, **options)
    sess.run(tf.global_variables_initializer())
    averages = [var for var in tf.global_variables() if var.op.name.endswith("EMA")]
    for scale in (1.0, 1e6, 1.0):
        sess.run([y, tf.get_collection(tf.GraphKeys.UPDATE_OPS)], {x: scale * np.float32([[1], [3], [1], [3]])})
    np.testing.assert_allclose(np.ravel(sess.run(averages)), [1.5, 1], rtol=1e-3)


@every_precision
def test_batch_norm_has_one_kernel(precision):
    """BatchNorm of images is TensorFlow's fused kernel, in 16 bits with statistics in float32, where there is one."""
    dtype, _ = PRECISIONS[precision]
    build("BatchNorm", tf.cast(inputs_of("BatchNorm"), dtype), precision)
    (kernel,) = [op for op in tf.get_default_graph().get_operations() if op.type == "FusedBatchNormV3"]
    assert [dtype, tf.float32, tf.float32] == [tensor.dtype for tensor in kernel.outputs[:3]]
