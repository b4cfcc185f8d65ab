"""Rules about models that compute in mixed precision."""

from __future__ import annotations

from typing import Any, Iterator

from ...compat import tfv1 as tf
from ...tfutils.precision import precision_record
from ..data_check.remarks import Remark
from .graph_view import remark_on
from .training import ExaminedTraining

_PRODUCTS = (
    *("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv2DBackpropInput", "Conv3D"),
    *("DepthwiseConv2dNative", "Einsum", "MatMul"),
)
_CROSS_ENTROPIES = ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
_SENSITIVE = ("L2Loss", "LogSoftmax", "Softmax", *_CROSS_ENTROPIES)
_REDUCTIONS = ("Mean", "Sum")


def products_in_float32(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G16: a convolution or a matrix product in float32, in a model with mixed precision.

    Why: it takes the time and the memory that mixed precision was to save. Layers of this library compute in 16 bits;
    functions of TensorFlow compute in the dtype of their inputs, which is float32 for a variable of `tf.get_variable`.

    Does not report parts under `precision_scope("float32")`.

    Source: Keras's and PyTorch's lists of operations for mixed precision.
    """
    record = precision_record()
    if not record.dtypes:
        return
    ops = [
        op
        for op in training.graph.in_order(training.before_cost - record.kept)
        if op.type in _PRODUCTS and op.outputs[0].dtype.base_dtype == tf.float32
    ]
    if ops:
        dtype = " or ".join(sorted(kind.name for kind in record.dtypes))
        text = f"{ops[0].type} computes in float32, but the precision of the model is {dtype}."
        advice = f'Use a layer, or cast both inputs to {dtype}; or keep it under precision_scope("float32").'
        yield remark_on("G16", ops, text, advice)


def costs_in_16_bits(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G17: a softmax, or a scalar part of the cost, is computed in 16 bits.

    Why: a sum over a batch has an error of a percent in bfloat16, and is infinite above 65504 in float16. The output of an image
    layer was used for a cost without a cast.

    Does not report models without `precision_scope`.

    Source: Micikevicius et al. 2018, "Mixed precision training", section 3.3.
    """
    record = precision_record()
    if not record.dtypes:
        return
    ops = [op for op in training.graph.in_order(training.before_cost) if _is_sensitive(op)]
    narrow = [op for op in ops if op.outputs[0].dtype.base_dtype in record.dtypes]
    if narrow:
        text = f"{narrow[0].type} computes in {narrow[0].outputs[0].dtype.base_dtype.name}."
        yield remark_on("G17", narrow, text, "Cast its input first: tf.cast(x, tf.float32).")


def _is_sensitive(op: Any) -> bool:
    return op.type in _SENSITIVE or (op.type in _REDUCTIONS and op.outputs[0].shape.ndims == 0)
