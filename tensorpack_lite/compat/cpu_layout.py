"""
Channels-first images (NCHW, NCDHW), grouped and dilated convolutions on a CPU, where TensorFlow's kernels take only
channels-last images (NHWC, NDHWC) and one group, and have no gradient with dilations.

`install` replaces the functions that create convolutions, poolings and the like. For channels-first images, a replaced
function transposes its inputs, creates the channels-last operation and transposes the output back. `tf.nn`,
`tf.layers`, Keras, slim and the library's layers all call these functions. Gradients are those of the
composition.

Without `install`, on a CPU (x86-64, November 2026): TensorFlow 1.15 refuses the operations of the table below, except
`FusedBatchNormV3` in inference and 3-D poolings of some dtypes. TensorFlow 2.15 and 2.21 run those that
oneDNN has: all of float32 except `DepthToSpace`, `SpaceToDepth` and gradients with explicit paddings. They
refuse float64, and float16 except in `FusedBatchNormV3`. On CPUs for which TensorFlow does not use oneDNN (AMD EPYC), they
refuse the same as TensorFlow 1.15. `BiasAdd` runs everywhere. It is in the table
because transpositions between a convolution and its bias are then removed.

Cost: TensorFlow's graph optimizer removes transpositions that follow each other directly. A small ResNet of 64 channels
takes 1.12 to 1.15 x the CPU time of NHWC in training and 1.17 to 1.23 x in inference (1.15, 2.15 and 2.21;
one thread of an Intel Xeon, 22 November 2026; `benchmarks/cpu_layout.py`).

A known fault of the optimizer (1.15 to 2.21): `a = tf.transpose(x, p); b = tf.identity(a)` under control dependencies;
`c = tf.transpose(b, inverse of p)`. If `c` itself is fetched, one transposition is lost. So do not fetch the
result of a `tf.transpose` that follows a layer and such an identity. Fetch `tf.ensure_shape(c, c.shape)`
instead.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Sequence

from tensorflow.python.ops import gen_array_ops as _gen_array_ops
from tensorflow.python.ops import gen_nn_ops as _gen_nn_ops
from tensorflow.python.ops import nn as _nn
from tensorflow.python.ops import nn_ops as _nn_ops

from . import tensorflow
from . import tfv1 as tf
from .replacement import replace

# Private, because the public functions of `tf.nn`, Keras and slim share only these generated functions, which they call
# as attributes of the modules below. Tried on 1.15, 2.15, 2.21.
_GENERATED = {
    _gen_nn_ops: {
        "conv2d": "Conv2D",
        "conv2d_backprop_input": "Conv2DBackpropInput",
        "conv2d_backprop_filter": "Conv2DBackpropFilter",
        "depthwise_conv2d_native": "DepthwiseConv2dNative",
        "depthwise_conv2d_native_backprop_input": "DepthwiseConv2dNativeBackpropInput",
        "depthwise_conv2d_native_backprop_filter": "DepthwiseConv2dNativeBackpropFilter",
        "bias_add": "BiasAdd",
        "conv3d": "Conv3D",
        "conv3d_backprop_input_v2": "Conv3DBackpropInputV2",
        "conv3d_backprop_filter_v2": "Conv3DBackpropFilterV2",
        "max_pool": "MaxPool",
        "avg_pool": "AvgPool",
        "max_pool3d": "MaxPool3D",
        "avg_pool3d": "AvgPool3D",
        "fused_batch_norm_v3": "FusedBatchNormV3",
    },
    _gen_array_ops: {"depth_to_space": "DepthToSpace", "space_to_depth": "SpaceToDepth"},
}
# The modules that refer to these functions, some under other names. The functions of `raw_ops` are different objects.
_MODULES = (_gen_nn_ops, _gen_array_ops, _nn_ops, _nn, tensorflow.nn, tf.nn, tensorflow.raw_ops)

_CHANNELS_LAST = {"NCHW": "NHWC", "NCDHW": "NDHWC"}
# The generated functions name their arguments consistently.
_IMAGES = ("input", "value", "x", "out_backprop")
_ONE_PER_AXIS = ("strides", "ksize", "dilations")
_TWO_PER_AXIS = "explicit_paddings"
_SHAPE_OF_IMAGES = "input_sizes"


def install() -> None:
    """
    Let operations on channels-first images run on a CPU, for the whole process.

    Operations that are created later are affected, on all devices: placed on a GPU, they compute the same
    values. A second call does nothing. Channels-last operations are created as before, except for two kinds, because no
    kernel for CPUs has their gradients: a grouped convolution becomes one convolution for each group, and a dilated one
    a convolution of every n-th pixel, as in `tf.nn.atrous_conv2d`.

    The operation `conv1` becomes a scope `conv1/` with the transpositions and the channels-last operation,
    and an identity `conv1`. So the tensor `conv1:0` keeps its name, value and static shape. The moments that
    `FusedBatchNormV3` returns are in the scope, with other names.
    """
    replacements = {}
    for module, names in _GENERATED.items():
        for name, op_type in names.items():
            for function in (getattr(module, name), getattr(tensorflow.raw_ops, op_type)):
                if not isinstance(function, _TakesChannelsFirst):
                    replacements[function] = _TakesChannelsFirst(function, op_type)
    _replace(replacements.get)


def uninstall() -> None:
    """Undo `install`. Existing operations stay as they are."""
    _replace(lambda value: value.original if isinstance(value, _TakesChannelsFirst) else None)


def _replace(find_replacement: Callable[[Any], Any]) -> None:
    """Replace each function of `_MODULES` for which there is a replacement that is not None."""
    for module in _MODULES:
        for name, value in list(vars(module).items()):
            replacement = find_replacement(value) if callable(value) else None
            if replacement is not None:
                replace(module, name, replacement)


class _TakesChannelsFirst:
    """A generated function that also takes channels-first images on a CPU."""

    def __init__(self, original: Callable[..., Any], op_type: str) -> None:
        functools.update_wrapper(self, original)
        self.original = original
        self._op_type = op_type
        self._signature = inspect.signature(original)
        self._position = list(self._signature.parameters).index("data_format")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        data_format = args[self._position] if len(args) > self._position else kwargs.get("data_format")
        arguments = dict(self._signature.bind(*args, **kwargs).arguments)
        if data_format is None or tf.compat.as_text(data_format) not in _CHANNELS_LAST:
            if _num_groups(self._op_type, arguments) == 1 and _dilation_rate(self._op_type, arguments) is None:
                return self.original(*args, **kwargs)
            with tf.name_scope(arguments.pop("name", None), self._op_type) as scope:
                return self._create(arguments, scope)
        if self._op_type == "BiasAdd":
            # "NCHW" may also mean [N, C, L] or [N, C, D, H, W], which TensorFlow can do on a CPU.
            arguments["value"] = tf.convert_to_tensor(arguments["value"])
            if arguments["value"].shape.ndims != 4:
                return self.original(*args, **kwargs)
        with tf.name_scope(arguments.pop("name", None), self._op_type) as scope:
            return self._transpose_around(arguments, scope)

    def _transpose_around(self, arguments: dict[str, Any], scope: str) -> Any:
        """Create the operations. `scope` ends in "/", which makes it the name of an operation, without another scope."""
        data_format = tf.compat.as_text(arguments["data_format"])
        rank = len(data_format)
        to_last, to_first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
        for name, value in arguments.items():
            if name in _IMAGES:
                arguments[name] = tf.transpose(value, to_last, name="channels_last")
            elif name in _ONE_PER_AXIS:
                arguments[name] = _reorder(value, to_last)
            elif name == _TWO_PER_AXIS:
                arguments[name] = _reorder(value, [2 * axis + end for axis in to_last for end in (0, 1)])
            elif name == _SHAPE_OF_IMAGES:
                arguments[name] = _reorder_shape(value)
        arguments["data_format"] = _CHANNELS_LAST[data_format]
        if "BackpropFilter" in self._op_type:  # a filter has one layout
            return self.original(**arguments, name=scope)
        result = self._create(arguments, self._op_type)
        is_batch_norm = self._op_type == "FusedBatchNormV3"  # which also returns moments
        images = result.y if is_batch_norm else result
        # TensorFlow 2's graph optimizer ignores the value that is fed for a transposition, but not that for
        # an identity.
        images = tf.identity(tf.transpose(images, to_first, name="channels_first"), name=scope)
        return result._replace(y=images) if is_batch_norm else images

    def _create(self, arguments: dict[str, Any], name: str) -> Any:
        """Create the channels-last operation; for a grouped or dilated convolution, the operations that replace it."""
        groups, rate = _num_groups(self._op_type, arguments), _dilation_rate(self._op_type, arguments)
        if rate is not None:
            return self._create_dilated(arguments, rate, name)
        if groups == 1:
            return self.original(**arguments, name=name)
        images = tf.split(arguments["input"], groups, 3)
        kernels = tf.split(arguments["filter"], groups, 3)
        outputs = [
            self.original(**{**arguments, "input": image, "filter": kernel}, name="group")
            for image, kernel in zip(images, kernels)
        ]
        return tf.concat(outputs, 3, name=name)

    def _create_dilated(self, arguments: dict[str, Any], rate: list[int], name: str) -> Any:
        arguments = {**arguments, "dilations": [1, 1, 1, 1]}

        def convolve(images: tf.Tensor, num_spatial_dims: int, padding: str) -> Any:
            return self._create({**arguments, "input": images, "padding": padding}, "dilated")

        padding = tf.compat.as_text(arguments["padding"])
        shape = tf.convert_to_tensor(arguments["filter"]).shape
        images = tf.nn.with_space_to_batch(arguments["input"], rate, padding, convolve, shape, [1, 2])
        return tf.identity(images, name=name)


def _dilation_rate(op_type: str, arguments: dict[str, Any]) -> list[int] | None:
    """Return the rates of a dilated 2-D convolution of channels-last images that can be replaced; None for other operations."""
    rate = list(arguments.get("dilations") or ())[1:3]
    if op_type != "Conv2D" or max(rate, default=1) == 1 or list(arguments["strides"])[1:3] != [1, 1]:
        return None
    return rate if tf.compat.as_text(arguments["padding"]) in ("SAME", "VALID") else None


def _num_groups(op_type: str, arguments: dict[str, Any]) -> int:
    """Return the number of groups of a 2-D convolution of channels-last images; 1 for other operations."""
    if op_type != "Conv2D":
        return 1
    # without tf.convert_to_tensor, which would create operations
    images, kernel = [tf.TensorShape(getattr(arguments[name], "shape", None)) for name in ("input", "filter")]
    if images.ndims != 4 or kernel.ndims != 4:
        return 1
    channels, per_group = tf.compat.dimension_value(images[3]), tf.compat.dimension_value(kernel[2])
    return channels // per_group if channels and per_group and channels % per_group == 0 else 1


def _reorder(values: Sequence[int], axes: list[int]) -> Sequence[int]:
    """Reorder a list. A list of another length is left to TensorFlow, which reports it."""
    return [values[axis] for axis in axes] if len(values) == len(axes) else values


def _reorder_shape(shape: Any) -> tf.Tensor:
    """Reorder a shape [N, C, ...]. TensorFlow's static shapes see through slices, but not through `tf.gather`."""
    shape = tf.convert_to_tensor(shape)
    return tf.concat([shape[:1], shape[2:], shape[1:2]], 0)
