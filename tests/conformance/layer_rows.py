"""
Table of calls of each public layer: the arguments, the variables, and the result in NumPy.

An oracle is a function `f(x, v, training) -> array`, where `v` has the layer's variables as arrays by name ("W", "bn/gamma").
All arrays are float64 and channels-last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Tuple

import numpy as np

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf

__all__ = ["IMAGES", "ROWS", "SEQUENCES", "VECTORS", "Row", "convolve", "moments", "transposed_convolve"]

IMAGES = (3, 5, 6, 4)
VECTORS = (5, 6)
SEQUENCES = (3, 5, 4)
EPSILON = 1e-5


@dataclass
class Row:
    """
    A call of a layer, and its properties.

    `variables` are shapes by name; those in `averages` are not trained. `data_format`: whether the layer has this argument.
    `wide`: whether variables are float32 for float16 inputs. `smooth`: whether gradients equal finite differences.
    """

    name: str
    case: str
    shape: Tuple[int, ...]
    oracle: Callable[..., Any]
    args: Tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = field(default_factory=dict)
    variables: Dict[str, Tuple[int, ...]] = field(default_factory=dict)
    averages: Tuple[str, ...] = ()
    updates: int = 0
    output: str = "layer/output"
    data_format: bool = False
    wide: bool = False
    smooth: bool = True

    def __str__(self) -> str:
        return f"{self.name}-{self.case}"

    @property
    def layer(self) -> Callable[..., Any]:
        return getattr(models, self.name)

    def build(self, x: Any, **more: Any) -> Any:
        """Call the layer with the arguments of the row and more keyword arguments."""
        return self.call(x, **{**self.kwargs, **more})

    def call(self, x: Any, **kwargs: Any) -> Any:
        """Call the layer, named `layer`, and return its outputs, without the state of recurrent layers."""
        output = self.layer("layer", x, *self.args, **kwargs)
        return output[0] if isinstance(output, tuple) else output


# NumPy --------------------------------------------------------------------------------------------------------------------


def _borders(size: int, kernel: int, stride: int, padding: str) -> Tuple[int, int, int]:
    """Return the output size, and the padding before and after."""
    if padding == "valid":
        return -(-(size - kernel + 1) // stride), 0, 0
    output = -(-size // stride)
    total = max((output - 1) * stride + kernel - size, 0)
    return output, total // 2, total - total // 2


def _windows(x, kernel, strides, padding, dilation=(1, 1), fill=0.0):
    """Return all windows of images: [N, H', W', kh, kw, C]."""
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    (rows, top, bottom), (columns, left, right) = (
        _borders(size, k, s, padding) for size, k, s in zip(x.shape[1:3], reach, strides)
    )
    x = np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)], mode="constant", constant_values=fill)
    out = np.empty((x.shape[0], rows, columns, kernel[0], kernel[1], x.shape[3]))
    for i in range(rows):
        for j in range(columns):
            y, z = i * strides[0], j * strides[1]
            out[:, i, j] = x[:, y : y + reach[0] : dilation[0], z : z + reach[1] : dilation[1]]
    return out


def convolve(x, w, strides=(1, 1), padding="same", dilation=(1, 1)):
    """Convolve [N, H, W, C] with [kh, kw, C, D]."""
    return np.einsum("nijabc,abcd->nijd", _windows(x, w.shape[:2], strides, padding, dilation), w)


def transposed_convolve(x, w, strides=(1, 1), padding="same"):
    """Spread each pixel of [N, H, W, C] over a window with [kh, kw, D, C]."""
    (n, height, width, _), (kh, kw, d, _) = x.shape, w.shape
    extra = [max(k - s, 0) for k, s in zip((kh, kw), strides)]
    whole = np.zeros((n, height * strides[0] + extra[0], width * strides[1] + extra[1], d))
    for i in range(height):
        for j in range(width):
            y, z = i * strides[0], j * strides[1]
            whole[:, y : y + kh, z : z + kw] += np.einsum("nc,abdc->nabd", x[:, i, j], w)
    if padding == "valid":
        return whole
    top, left = extra[0] // 2, extra[1] // 2
    return whole[:, top : top + height * strides[0], left : left + width * strides[1]]


def moments(x, axes):
    """Return the mean and biased variance, with the axes kept."""
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def _normalize(x, axes, v, prefix=""):
    mean, variance = moments(x, axes)
    return (x - mean) / np.sqrt(variance + EPSILON) * v.get(prefix + "gamma", 1) + v.get(prefix + "beta", 0)


def _batch_norm(x, v, training, prefix=""):
    if training:
        return _normalize(x, tuple(range(x.ndim - 1)), v, prefix)
    scaled = (x - v[prefix + "mean/EMA"]) / np.sqrt(v[prefix + "variance/EMA"] + EPSILON)
    return scaled * v.get(prefix + "gamma", 1) + v.get(prefix + "beta", 0)


def _ghost_norm(x, v, training):
    if not training:
        return _batch_norm(x, v, training)
    return np.concatenate([_normalize(part, (0, 1, 2), v) for part in np.split(x, 2)])


def _batch_renorm(x, v, training):
    if not training:
        scaled = (x - v["moving_mean"]) / np.sqrt(v["moving_variance"] + EPSILON)
        return scaled * v["gamma"] + v["beta"]
    mean, variance = moments(x, tuple(range(x.ndim - 1)))
    stddev = np.sqrt(variance + EPSILON)
    r = np.clip(stddev / v["renorm_stddev"], 1 / 1.1, 1.1)
    d = np.clip((mean - v["renorm_mean"]) / v["renorm_stddev"], -0.3, 0.3)
    return ((x - mean) / stddev * r + d) * v["gamma"] + v["beta"]


def _grouped(x, v, _):
    parts = zip(np.split(x, 2, 3), np.split(v["W"], 2, 3))
    return np.concatenate([convolve(part, w) for part, w in parts], 3) + v["b"]


def _relu(x):
    return np.maximum(x, 0)


def _kron(x, matrix):
    """Return the Kronecker product of each channel of each image with a matrix."""
    return np.stack([np.stack([np.kron(x[n, :, :, c], matrix) for c in range(x.shape[3])], 2) for n in range(len(x))])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm_step(x, state, v, prefix):
    c, h = state
    gates = np.concatenate([x, h], 1) @ v[prefix + "lstm_cell/kernel"] + v[prefix + "lstm_cell/bias"]
    i, j, f, o = np.split(gates, 4, 1)
    c = _sigmoid(f + 1) * c + _sigmoid(i) * np.tanh(j)
    return c, _sigmoid(o) * np.tanh(c)


def _gru_step(x, state, v, prefix):
    (h,) = state
    gates = np.concatenate([x, h], 1) @ v[prefix + "gru_cell/gates/kernel"] + v[prefix + "gru_cell/gates/bias"]
    r, u = np.split(_sigmoid(gates), 2, 1)
    kernel, bias = v[prefix + "gru_cell/candidate/kernel"], v[prefix + "gru_cell/candidate/bias"]
    return (u * h + (1 - u) * np.tanh(np.concatenate([x, r * h], 1) @ kernel + bias),)


def _recurrent(step, x, v, units, prefix="", lengths=None, backward=False):
    """Run a cell over [N, T, D]. Padding starts at `lengths` [N]."""
    state = [np.zeros([len(x), units])] * (2 if step is _lstm_step else 1)
    outputs = np.zeros([*x.shape[:2], units])
    for t in range(x.shape[1])[:: -1 if backward else 1]:
        valid = np.full([len(x), 1], True) if lengths is None else (t < np.array(lengths))[:, None]
        state = [np.where(valid, new, old) for new, old in zip(step(x[:, t], state, v, prefix), state)]
        outputs[:, t] = np.where(valid, state[-1], 0)
    return outputs


def _both_directions(step, x, v, units, prefix="", lengths=None):
    return np.concatenate([_recurrent(step, x, v, units, prefix + d, lengths, d == "bw/") for d in ("fw/", "bw/")], 2)


def _attend(x, v, num_heads, allowed=True, bias=0):
    """Run attention over [N, T, D]; `allowed` and `bias` broadcast with [N, H, T, T]."""

    def linear(name, x):
        return x @ v[name + "/W"] + v.get(name + "/b", 0)

    heads = [np.stack(np.split(linear(name, x), num_heads, 2), 1) for name in ("query", "key", "value")]
    query, key, value = heads
    scores = np.einsum("nhtk,nhsk->nhts", query, key) / np.sqrt(query.shape[3]) + bias
    allowed = np.broadcast_to(allowed, scores.shape)
    weights = np.exp(scores - scores.max(3, keepdims=True)) * allowed
    weights /= np.maximum(weights.sum(3, keepdims=True), 1e-300)
    attended = np.concatenate(list(np.moveaxis(weights @ value, 1, 0)), 2)
    return linear("out", attended) * allowed.any((1, 3))[:, :, None]


# Rows ---------------------------------------------------------------------------------------------------------------------

NORM = {"gamma": (4,), "beta": (4,)}
AVERAGES = ("mean/EMA", "variance/EMA")
EMA = dict.fromkeys(AVERAGES, (4,))
RENORM = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")
LSTM = {"lstm_cell/kernel": (7, 12), "lstm_cell/bias": (12,)}
GRU = {"gru_cell/gates/kernel": (7, 6), "gru_cell/gates/bias": (6,), "gru_cell/candidate/kernel": (7, 3),
       "gru_cell/candidate/bias": (3,)}  # fmt: skip
LENGTHS = (5, 0, 3)
VALID = np.arange(5) < np.array(LENGTHS)[:, None]
ATTENTION = ("query", "key", "value", "out")
SOME = np.random.RandomState(0).uniform(size=[1, 2, 5, 5]) < 0.6  # without any key for some queries
MATRIX = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]])

ROWS = [
    Row("Conv2D", "plain", IMAGES, lambda x, v, _: convolve(x, v["W"]) + v["b"], (6, 3),
        variables={"W": (3, 3, 4, 6), "b": (6,)}, data_format=True),
    Row("Conv2D", "strided-relu", IMAGES,
        lambda x, v, _: _relu(convolve(x, v["W"], (2, 1), "valid")), (6, (2, 3)),
        {"strides": (2, 1), "padding": "VALID", "activation": "relu", "use_bias": False},
        {"W": (2, 3, 4, 6)}, data_format=True),
    Row("Conv2D", "dilated", IMAGES, lambda x, v, _: convolve(x, v["W"], dilation=(2, 1)) + v["b"], (6, 3),
        {"dilation_rate": (2, 1)}, {"W": (3, 3, 4, 6), "b": (6,)}, data_format=True),
    Row("Conv2D", "grouped", IMAGES, _grouped, (6, 3), {"split": 2}, {"W": (3, 3, 2, 6), "b": (6,)}, data_format=True),
    Row("Conv2D", "BNReLU", IMAGES,
        lambda x, v, training: _relu(_batch_norm(convolve(x, v["W"]) + v["b"], v, training, "bn/")), (4, 3),
        {"activation": models.BNReLU},
        {"W": (3, 3, 4, 4), "b": (4,), **{f"bn/{name}": (4,) for name in ("gamma", "beta", *AVERAGES)}},
        tuple(f"bn/{name}" for name in AVERAGES), updates=2, wide=True),
    Row("Conv2DTranspose", "same", IMAGES, lambda x, v, _: transposed_convolve(x, v["W"], (2, 3)) + v["b"], (6, 3),
        {"strides": (2, 3)}, {"W": (3, 3, 6, 4), "b": (6,)}, data_format=True),
    Row("Conv2DTranspose", "valid", IMAGES, lambda x, v, _: transposed_convolve(x, v["W"], (2, 3), "valid"), (6, 4, (2, 3)),
        {"padding": "valid", "use_bias": False}, {"W": (4, 4, 6, 4)}, data_format=True),
    Row("Deconv2D", "kernel-below-stride", IMAGES,
        lambda x, v, _: transposed_convolve(x, v["W"], (3, 3), "valid") + v["b"], (6, 2, 3),
        {"padding": "valid"}, {"W": (2, 2, 6, 4), "b": (6,)}, data_format=True),
    Row("FullyConnected", "vectors", VECTORS, lambda x, v, _: x @ v["W"] + v["b"], (3,),
        variables={"W": (6, 3), "b": (3,)}),
    Row("FullyConnected", "images", IMAGES, lambda x, v, _: np.tanh(x.reshape(len(x), -1) @ v["W"] / 50), (3,),
        {"use_bias": False, "activation": lambda x: tf.tanh(x / 50)}, {"W": (120, 3)}),
    Row("MaxPooling", "default", IMAGES, lambda x, v, _: _windows(x, (2, 2), (2, 2), "valid").max((3, 4)), (2,),
        data_format=True),
    Row("MaxPooling", "same", IMAGES, lambda x, v, _: _windows(x, (3, 2), (2, 1), "same", fill=-np.inf).max((3, 4)), ((3, 2),),
        {"strides": (2, 1), "padding": "same"}, data_format=True),
    Row("AvgPooling", "default", IMAGES, lambda x, v, _: _windows(x, (2, 2), (2, 2), "valid").mean((3, 4)), (2,),
        data_format=True),
    Row("AvgPooling", "same", IMAGES,
        lambda x, v, _: np.nanmean(_windows(x, (3, 2), (2, 1), "same", fill=np.nan), (3, 4)), ((3, 2),),
        {"strides": (2, 1), "padding": "same"}, data_format=True),
    Row("GlobalAvgPooling", "default", IMAGES, lambda x, v, _: x.mean((1, 2)), data_format=True),
    Row("FixedUnPooling", "zeros", IMAGES, lambda x, v, _: _kron(x, np.array([[1, 0], [0, 0]])), (2,),
        data_format=True),
    Row("FixedUnPooling", "matrix", IMAGES, lambda x, v, _: _kron(x, MATRIX), ((2, 3),), {"unpool_mat": MATRIX},
        data_format=True),
    Row("BatchNorm", "images", IMAGES, _batch_norm, variables={**NORM, **EMA}, averages=AVERAGES, updates=2,
        data_format=True, wide=True),
    Row("BatchNorm", "vectors", VECTORS, _batch_norm, variables=dict.fromkeys(("gamma", "beta", *AVERAGES), (6,)),
        averages=AVERAGES, updates=2, wide=True),
    Row("BatchNorm", "no-affine", IMAGES, _batch_norm, (), {"center": False, "scale": False}, EMA, AVERAGES, updates=2,
        data_format=True, wide=True),
    Row("BatchNorm", "internal", IMAGES, _batch_norm, (), {"ema_update": "internal"}, {**NORM, **EMA}, AVERAGES,
        data_format=True, wide=True),
    Row("BatchNorm", "ghost", (4, 3, 2, 4), _ghost_norm, (), {"virtual_batch_size": 2}, {**NORM, **EMA}, AVERAGES,
        data_format=True, wide=True),
    Row("BatchRenorm", "images", IMAGES, _batch_renorm, (), {"rmax": 1.1, "dmax": 0.3},
        {**NORM, **dict.fromkeys(RENORM, (4,))}, RENORM, updates=4,
        data_format=True, wide=True, smooth=False),
    Row("BatchRenorm", "vectors", VECTORS, _batch_renorm, (), {"rmax": 1.1, "dmax": 0.3},
        dict.fromkeys(("gamma", "beta", *RENORM), (6,)), RENORM, updates=4, wide=True, smooth=False),
    Row("LayerNorm", "images", IMAGES, lambda x, v, _: _normalize(x, (1, 2, 3), v), variables=NORM,
        data_format=True, wide=True),
    Row("LayerNorm", "vectors", VECTORS, lambda x, v, _: _normalize(x, (1,), v), (), {"scale": False},
        {"beta": (6,)}, wide=True),
    Row("InstanceNorm", "default", IMAGES, lambda x, v, _: _normalize(x, (1, 2), v), variables=NORM,
        data_format=True, wide=True),
    Row("Maxout", "images", IMAGES, lambda x, v, _: x.reshape(x.shape[:3] + (2, 2)).max(4), (2,)),
    Row("Maxout", "vectors", VECTORS, lambda x, v, _: x.reshape(-1, 2, 3).max(2), (3,)),
    Row("PReLU", "default", IMAGES, lambda x, v, _: np.where(x > 0, x, v["alpha"] * x), variables={"alpha": ()}),
    Row("BNReLU", "default", IMAGES, lambda x, v, training: _relu(_batch_norm(x, v, training, "bn/")),
        variables={f"bn/{name}": (4,) for name in ("gamma", "beta", *AVERAGES)},
        averages=tuple(f"bn/{name}" for name in AVERAGES), updates=2, output="layer/Relu", wide=True),
    Row("ConcatWith", "itself", IMAGES, lambda x, v, _: np.concatenate([x, np.ones((3, 5, 6, 1))], 3),
        (np.ones((3, 5, 6, 1)), 3), output="layer/concat"),
    Row("LSTM", "plain", SEQUENCES, lambda x, v, _: _recurrent(_lstm_step, x, v, 3), (3,), variables=LSTM),
    Row("LSTM", "both-directions", SEQUENCES, lambda x, v, _: _both_directions(_lstm_step, x, v, 3, "", LENGTHS), (3,),
        {"bidirectional": True, "sequence_length": LENGTHS},
        {f"{d}/{name}": shape for d in ("fw", "bw") for name, shape in LSTM.items()}),
    Row("GRU", "padded", SEQUENCES, lambda x, v, _: _recurrent(_gru_step, x, v, 3, lengths=LENGTHS), (3,),
        {"mask": VALID}, GRU),
    Row("GRU", "stacked-both-directions", SEQUENCES,
        lambda x, v, _: _both_directions(
            _gru_step, _both_directions(_gru_step, x, v, 2, "cell_0/bidirectional_rnn/"), v, 2,
            "cell_1/bidirectional_rnn/"),
        (2,), {"num_layers": 2, "bidirectional": True},
        {f"cell_{i}/bidirectional_rnn/{d}/gru_cell/{name}": shape for i in (0, 1) for d in ("fw", "bw")
         for name, shape in (("gates/kernel", (6, 4)), ("gates/bias", (4,)), ("candidate/kernel", (6, 2)),
                             ("candidate/bias", (2,)))}),
    Row("MultiHeadAttention", "self", SEQUENCES, lambda x, v, _: _attend(x, v, 2), (2,),
        variables={f"{name}/{kind}": (4, 4)[: 1 + (kind == "W")] for name in ATTENTION for kind in "Wb"}),
    Row("MultiHeadAttention", "masked", SEQUENCES,
        lambda x, v, _: _attend(x * VALID[:, :, None], v, 2, VALID[:, None, None] & np.tri(5, dtype=bool) & SOME, 0.5 * SOME),
        (2, 3), {"value_dim": 1, "units": 5, "use_bias": False, "key_mask": VALID, "causal": True,
                 "attention_mask": SOME.astype("int32"), "score_bias": 0.5 * SOME},
        {f"{name}/W": shape for name, shape in zip(ATTENTION, ((4, 6), (4, 6), (4, 2), (2, 5)))}),
    Row("Dropout", "off", IMAGES, lambda x, v, _: x, (), {"rate": 0.3, "training": False}, output="x"),
]  # fmt: skip
