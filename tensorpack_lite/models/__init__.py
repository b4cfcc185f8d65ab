"""
Layers: functions from tensors to tensors that create their variables in a scope named after the layer.

**In:** the input tensors of one tower, and from tfutils the tower context and argscope.
**Out:** the outputs of the model, and variables with the names that tensorpack's checkpoints use.
**Next:** graph_builder, which computes gradients of the model's cost.

The layers use `tf.nn` and `tf.get_variable`. None needs Keras or `tf.layers`.
"""

from typing import TYPE_CHECKING

from ..utils.missing_names import explain_missing_names
from .attention import MultiHeadAttention
from .batch_norm import BatchNorm, BatchRenorm
from .conv2d import Conv2D, Conv2DTranspose, Deconv2D
from .fc import FullyConnected
from .layer_norm import InstanceNorm, LayerNorm
from .linearwrap import LinearWrap
from .nonlin import BNReLU, Maxout, PReLU
from .pool import AvgPooling, FixedUnPooling, GlobalAvgPooling, MaxPooling
from .recurrent import GRU, LSTM
from .registry import disable_layer_logging, layer_register
from .regularize import Dropout, l1_regularizer, l2_regularizer, regularize_cost, regularize_cost_from_collection
from .shapes import ConcatWith
from .variables import VariableHolder, rename_tflayer_get_variable

__all__ = [
    "GRU", "LSTM", "AvgPooling", "BNReLU", "BatchNorm", "BatchRenorm", "ConcatWith", "Conv2D",
    "Conv2DTranspose", "Deconv2D", "Dropout", "FixedUnPooling", "FullyConnected", "GlobalAvgPooling",
    "InstanceNorm", "LayerNorm", "LinearWrap", "MaxPooling", "Maxout", "MultiHeadAttention", "PReLU", "VariableHolder",
    "disable_layer_logging", "l1_regularizer", "l2_regularizer", "layer_register", "regularize_cost",
    "regularize_cost_from_collection", "rename_tflayer_get_variable",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
