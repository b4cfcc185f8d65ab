"""Layers as scripts call them, for type checkers and editors. `tests/api/layer_stubs.py` writes this file."""

from typing import Any, Callable, Sequence

import numpy as np

from ..compat.stubs import tfv1 as tf
from .linearwrap import LinearWrap as LinearWrap
from .nonlin import BNReLU as BNReLU
from .nonlin import Maxout as Maxout
from .registry import disable_layer_logging as disable_layer_logging
from .registry import layer_register as layer_register
from .regularize import Dropout as Dropout
from .regularize import l1_regularizer as l1_regularizer
from .regularize import l2_regularizer as l2_regularizer
from .regularize import regularize_cost as regularize_cost
from .regularize import regularize_cost_from_collection as regularize_cost_from_collection
from .shapes import ConcatWith as ConcatWith
from .variables import VariableHolder as VariableHolder
from .variables import rename_tflayer_get_variable as rename_tflayer_get_variable

def AvgPooling(
    name: str,
    inputs: tf.Tensor,
    pool_size: int | Sequence[int] = ...,
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def BatchNorm(
    name: str,
    inputs: tf.Tensor,
    axis: int | None = None,
    training: bool | None = None,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Callable[..., tf.Tensor] | None = None,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    virtual_batch_size: int | None = None,
    data_format: str = "channels_last",
    ema_update: str = "default",
    sync_statistics: str | None = None,
    **old_names: Any,
) -> tf.Tensor: ...
def BatchRenorm(
    name: str,
    inputs: tf.Tensor,
    rmax: float | tf.Tensor = ...,
    dmax: float | tf.Tensor = ...,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def Conv2D(
    name: str,
    inputs: tf.Tensor,
    filters: int = ...,
    kernel_size: int | Sequence[int] = ...,
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    dilation_rate: int | Sequence[int] = (1, 1),
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    split: int = 1,
    **old_names: Any,
) -> tf.Tensor: ...
def Conv2DTranspose(
    name: str,
    inputs: tf.Tensor,
    filters: int = ...,
    kernel_size: int | Sequence[int] = ...,
    strides: int | Sequence[int] = (1, 1),
    padding: str = "same",
    data_format: str = "channels_last",
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    **old_names: Any,
) -> tf.Tensor: ...
def FixedUnPooling(
    name: str,
    x: tf.Tensor,
    shape: int | Sequence[int] = ...,
    unpool_mat: np.ndarray | tf.Tensor | None = None,
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def FullyConnected(
    name: str,
    inputs: tf.Tensor,
    units: int = ...,
    activation: Callable[[tf.Tensor], tf.Tensor] | str | None = None,
    use_bias: bool = True,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    bias_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    bias_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    activity_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    **old_names: Any,
) -> tf.Tensor: ...
def GRU(
    name: str,
    inputs: tf.Tensor,
    units: int = ...,
    num_layers: int = 1,
    bidirectional: bool = False,
    sequence_length: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
    initial_state: Any = None,
    time_major: bool = False,
    unroll: bool | None = None,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    **old_names: Any,
) -> tuple[tf.Tensor, Any]: ...
def GlobalAvgPooling(
    name: str,
    x: tf.Tensor,
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def InstanceNorm(
    name: str,
    inputs: tf.Tensor,
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def LSTM(
    name: str,
    inputs: tf.Tensor,
    units: int = ...,
    num_layers: int = 1,
    bidirectional: bool = False,
    sequence_length: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
    initial_state: Any = None,
    time_major: bool = False,
    unroll: bool | None = None,
    forget_bias: float = 1.0,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    **old_names: Any,
) -> tuple[tf.Tensor, Any]: ...
def LayerNorm(
    name: str,
    inputs: tf.Tensor,
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Callable[..., tf.Tensor] | None = None,
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def MaxPooling(
    name: str,
    inputs: tf.Tensor,
    pool_size: int | Sequence[int] = ...,
    strides: int | Sequence[int] | None = None,
    padding: str = "valid",
    data_format: str = "channels_last",
    **old_names: Any,
) -> tf.Tensor: ...
def MultiHeadAttention(
    name: str,
    inputs: tf.Tensor,
    num_heads: int = ...,
    key_dim: int | None = None,
    value: tf.Tensor | None = None,
    key: tf.Tensor | None = None,
    key_mask: tf.Tensor | None = None,
    attention_mask: tf.Tensor | None = None,
    causal: bool = False,
    score_bias: tf.Tensor | None = None,
    dropout: float = 0.0,
    training: bool | None = None,
    use_bias: bool = True,
    value_dim: int | None = None,
    units: int | None = None,
    kernel_initializer: Callable[..., tf.Tensor] | None = None,
    kernel_regularizer: Callable[[tf.Tensor], tf.Tensor] | None = None,
    **old_names: Any,
) -> tf.Tensor: ...
def PReLU(
    scope: str,
    x: tf.Tensor,
    init: float = 0.001,
    name: str | None = None,
    **old_names: Any,
) -> tf.Tensor: ...

Deconv2D = Conv2DTranspose

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
    "MultiHeadAttention",
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
