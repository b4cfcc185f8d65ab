"""
Layers: functions from tensors to tensors that make their variables in a scope named after them.

**In:** the input tensors of one tower, and from tfutils the tower context and argscope.
**Out:** the outputs of the model, and variables with names that tensorpack's checkpoints have too.
**Next:** graph_builder, which turns the model's cost into gradients.

All are written with `tf.nn` and `tf.get_variable`; nothing needs Keras or `tf.layers`.
"""

from .batch_norm import BatchNorm, BatchRenorm
from .conv2d import Conv2D, Conv2DTranspose, Deconv2D
from .fc import FullyConnected
from .layer_norm import InstanceNorm, LayerNorm
from .linearwrap import LinearWrap
from .nonlin import BNReLU, Maxout, PReLU
from .pool import AvgPooling, FixedUnPooling, GlobalAvgPooling, MaxPooling
from .recurrent import GRU, LSTM
from .registry import disable_layer_logging, layer_register
from .regularize import (
    Dropout,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from .shapes import ConcatWith
from .variables import VariableHolder, rename_tflayer_get_variable

__all__ = [
    "GRU",
    "LSTM",
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "BatchRenorm",
    "ConcatWith",
    "Conv2D",
    "Conv2DTranspose",
    "Deconv2D",
    "Dropout",
    "FixedUnPooling",
    "FullyConnected",
    "GlobalAvgPooling",
    "InstanceNorm",
    "LayerNorm",
    "LinearWrap",
    "MaxPooling",
    "Maxout",
    "PReLU",
    "VariableHolder",
    "disable_layer_logging",
    "l1_regularizer",
    "l2_regularizer",
    "layer_register",
    "regularize_cost",
    "regularize_cost_from_collection",
    "rename_tflayer_get_variable",
]
