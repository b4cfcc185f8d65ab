"""Numbers of floating-point operations, by type of operation and from static shapes."""

from __future__ import annotations

import functools
import operator
from typing import Any, Iterable

from ..compat import tfv1 as tf

_MATRIX_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_CONVOLUTIONS = ("Conv2D", "Conv3D")
_INPUT_GRADIENTS = ("Conv2DBackpropInput", "Conv3DBackpropInputV2")
_KERNEL_GRADIENTS = ("Conv2DBackpropFilter", "Conv3DBackpropFilterV2")
PRODUCTS = (*_MATRIX_PRODUCTS, *_CONVOLUTIONS, *_INPUT_GRADIENTS, *_KERNEL_GRADIENTS)
"""Types of operations in which a network does nearly all of its work."""
_POOLS = ("AvgPool", "MaxPool", "AvgPool3D", "MaxPool3D")
_REDUCTIONS = ("Max", "Mean", "Min", "Prod", "Sum", "SquaredDifference", "L2Loss")
# operations for each element of the output; exponentials and the like count as one
_BY_ELEMENT = {
    **dict.fromkeys(("Add", "AddV2", "AddN", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum"), 1),
    **dict.fromkeys(("Abs", "Elu", "Erf", "Exp", "Log", "Log1p", "Neg", "Pow", "Relu", "Relu6", "Rsqrt", "Selu"), 1),
    **dict.fromkeys(("Sigmoid", "Softplus", "Sqrt", "Square", "SquaredDifference", "Tanh", "Reciprocal"), 1),
    **dict.fromkeys(("Softmax", "LogSoftmax"), 3),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), 4),
}


def count_flops(op: tf.Operation) -> int | None:
    """
    Return the number of floating-point operations of an operation.

    A multiplication and an addition count as two. Operations that only move values, and types that are not known, count as 0.

    Returns:
        None if a shape is not known.
    """
    kind = op.type
    if kind in _MATRIX_PRODUCTS:
        is_transposed = op.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
        return _times(2, op.outputs[0], _dimension(op.inputs[0], -2 if is_transposed else -1))
    if kind in _CONVOLUTIONS:
        return _times(2, op.outputs[0], _product(_dimensions(op.inputs[1])[:-1]))
    if kind == "DepthwiseConv2dNative":
        return _times(2, op.outputs[0], _product(_dimensions(op.inputs[1])[:2]))
    if kind in _INPUT_GRADIENTS + _KERNEL_GRADIENTS:  # the first also as a layer: transposed convolution
        kernel = op.inputs[1] if kind in _INPUT_GRADIENTS else op.outputs[0]
        return _times(2, op.inputs[2], _product(_dimensions(kernel)[:-1]))
    if kind in _POOLS:
        return _times(1, op.outputs[0], _prod(op.get_attr("ksize")))
    if kind in _REDUCTIONS and kind not in _BY_ELEMENT:
        return num_elements(op.inputs[0])
    if kind == "SparseSoftmaxCrossEntropyWithLogits" or kind == "SoftmaxCrossEntropyWithLogits":
        return _times(3, op.inputs[0], 1)
    return _times(_BY_ELEMENT[kind], op.outputs[0], 1) if kind in _BY_ELEMENT else 0


def num_elements(tensor: tf.Tensor) -> int | None:
    """Return the number of elements of a tensor, or None if its shape is not known."""
    return _product(_dimensions(tensor))


def _dimensions(tensor: tf.Tensor) -> list[Any]:
    return [None] if tensor.shape.rank is None else tensor.shape.as_list()


def _dimension(tensor: tf.Tensor, index: int) -> int | None:
    dimensions = _dimensions(tensor)
    return dimensions[index] if tensor.shape.rank is not None else None


def _product(dimensions: list[Any]) -> int | None:
    return None if None in dimensions else _prod(dimensions)


def _times(factor: int, tensor: tf.Tensor, per_element: int | None) -> int | None:
    num = num_elements(tensor)
    return None if num is None or per_element is None else factor * num * per_element


def _prod(numbers: Iterable[int]) -> int:
    return functools.reduce(operator.mul, numbers, 1)
