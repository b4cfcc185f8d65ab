"""Every layer with arguments, for tests of what holds for all of them."""

from __future__ import annotations

import numpy as np

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf

__all__ = ["LAYERS", "build_layer", "inputs_of"]

# layer -> (shape of its input, positional arguments, keyword arguments)
LAYERS = {
    "AvgPooling": ([2, 4, 4, 2], (2,), {}),
    "BNReLU": ([4, 3], (), {}),
    "BatchNorm": ([4, 3, 3, 2], (), {}),
    "BatchRenorm": ([4, 3], (), {"rmax": 2.0, "dmax": 1.0}),
    "ConcatWith": ([2, 3], (), {"tensor": None, "dim": 1}),
    "Conv2D": ([2, 5, 5, 2], (4, 3), {"split": 2}),
    "Conv2DTranspose": ([2, 3, 3, 2], (3, 3), {"strides": 2}),
    "Dropout": ([4, 6], (), {"rate": 0.5}),
    "FixedUnPooling": ([2, 3, 3, 2], (2,), {}),
    "FullyConnected": ([2, 3], (4,), {"activation": "tanh"}),
    "GRU": ([2, 3, 2], (3,), {"sequence_length": None}),
    "GlobalAvgPooling": ([2, 3, 3, 2], (), {}),
    "InstanceNorm": ([2, 3, 3, 2], (), {}),
    "LSTM": ([2, 3, 2], (3,), {"num_layers": 2, "bidirectional": True}),
    "LayerNorm": ([2, 3, 3, 2], (), {}),
    "MaxPooling": ([2, 4, 4, 2], (2,), {}),
    "Maxout": ([2, 4], (2,), {}),
    "MultiHeadAttention": ([2, 3, 4], (2,), {"causal": True}),
    "PReLU": ([2, 3], (), {}),
}


def inputs_of(layer: str) -> tf.Tensor:
    """Return a constant input of a layer, the same in each call."""
    shape = LAYERS[layer][0]
    return tf.constant(np.random.RandomState(0).standard_normal(shape), tf.float32)


def build_layer(layer: str, x: tf.Tensor, name: str = "x") -> tf.Tensor:
    """Build a layer, and return its output."""
    _, args, kwargs = LAYERS[layer]
    kwargs = dict(kwargs)
    if layer == "ConcatWith":
        kwargs["tensor"] = x
    if layer == "GRU":
        kwargs["sequence_length"] = tf.constant([3, 2])
    out = getattr(models, layer)(name, x, *args, **kwargs)
    return out[0] if layer in ("LSTM", "GRU") else out
