"""
Largest error of each layer in mixed precision against float32, over sums of about 10000 equal elements, as a Markdown table.

    python benchmarks/precision_layers.py                                # half a minute
    TF_ENABLE_ONEDNN_OPTS=0 python benchmarks/precision_layers.py        # with TensorFlow's own kernels
    python benchmarks/precision_layers.py Conv2D PReLU                   # some layers only

The error is that of the output, of the gradient of the input, or of the gradient of a variable, whichever is largest. It is
relative to the largest element of the same tensor in float32, in units of the rounding error of the format: half the distance
from 1 to the next number, 2^-11 in float16 and 2^-8 in bfloat16. A sum in 16 bits has errors of hundreds.

All layers get the same values in both precisions, which 16 bits can represent. Equal elements, none of them a power of two, are
the worst case of a sum: once it is large enough, each addition rounds in the same direction, and at last changes nothing.
"""

from __future__ import annotations

import sys

import numpy as np

from tensorpack_lite import models
from tensorpack_lite.compat import TF_VERSION, tensorflow
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.precision import precision_scope
from tensorpack_lite.tfutils.tower.context import TowerContext

# precision -> dtype, rounding error
FORMATS = {"mixed_float16": (tf.float16, 2.0**-11), "mixed_bfloat16": (tf.bfloat16, 2.0**-8)}
PRECISIONS = list(FORMATS) if TF_VERSION >= (2, 0) else ["mixed_float16"]

# case -> layer, shape of its input, positional arguments, keyword arguments
CASES = {
    "Conv2D, 10000 positions": ("Conv2D", [1, 100, 100, 4], (4, 1), {}),
    "Conv2D, 10000 terms": ("Conv2D", [1, 3, 3, 1112], (4, 3), {"padding": "valid"}),
    "Conv2D, 10000 filters": ("Conv2D", [1, 2, 2, 2], (10000, 1), {}),
    "Conv2D, dilation_rate=2": ("Conv2D", [1, 100, 100, 4], (4, 3), {"dilation_rate": 2}),
    "Conv2D, split=2": ("Conv2D", [1, 100, 100, 4], (4, 1), {"split": 2}),
    "Conv2D, channels_first": ("Conv2D", [1, 4, 100, 100], (4, 1), {"data_format": "channels_first"}),
    "Conv2DTranspose": ("Conv2DTranspose", [1, 50, 50, 4], (4, 2), {"strides": 2}),
    "FullyConnected, 10000 inputs": ("FullyConnected", [4, 10000], (4,), {}),
    "FullyConnected, 10000 datapoints": ("FullyConnected", [10000, 4], (4,), {}),
    "LSTM, 10000 steps": ("LSTM", [64, 157, 3], (4,), {}),
    "LSTM, 10000 steps, unrolled": ("LSTM", [200, 50, 3], (4,), {}),
    "GRU, 10000 steps": ("GRU", [64, 157, 3], (4,), {}),
    "GRU, 10000 steps, unrolled": ("GRU", [200, 50, 3], (4,), {}),
    "MultiHeadAttention, 10000 positions": ("MultiHeadAttention", [100, 100, 4], (2,), {}),
    "BatchNorm of images": ("BatchNorm", [2, 71, 71, 3], (), {}),
    "BatchNorm of vectors": ("BatchNorm", [10000, 3], (), {}),
    "BatchNorm, virtual_batch_size": ("BatchNorm", [10000, 3], (), {"virtual_batch_size": 5000}),
    "BatchRenorm": ("BatchRenorm", [10000, 3], (), {"rmax": 2.0, "dmax": 1.0}),
    "LayerNorm": ("LayerNorm", [2, 100, 100, 1], (), {}),
    "InstanceNorm": ("InstanceNorm", [1, 100, 100, 2], (), {}),
    "BNReLU": ("BNReLU", [2, 71, 71, 3], (), {}),
    "PReLU": ("PReLU", [10000], (), {}),
    "Maxout": ("Maxout", [1, 10000], (10000,), {}),
    "AvgPooling": ("AvgPooling", [1, 199, 199, 2], (100, 1), {}),
    "MaxPooling": ("MaxPooling", [1, 199, 199, 1], (100, 1), {}),
    "GlobalAvgPooling": ("GlobalAvgPooling", [1, 100, 100, 2], (), {}),
    "FixedUnPooling": ("FixedUnPooling", [1, 1, 1, 2], (100, np.full([100, 100], 0.3)), {}),
    "Dropout": ("Dropout", [10000], (), {"rate": 0.001, "seed": 1}),
    "ConcatWith": ("ConcatWith", [100, 100], (), {"dim": 1}),
}
_NORMALIZATION = ("BNReLU", "BatchNorm", "BatchRenorm", "InstanceNorm", "LayerNorm", "PReLU")
_WITHOUT_NAME = ("BNReLU", "ConcatWith", "Dropout", "Maxout")


def make_input(layer: str, shape: list) -> np.ndarray:
    """Return equal elements; of both signs where those of one sign would be normalized to 0; for a maximum, one large element."""
    values = np.full(shape, 0.7)
    if layer in _NORMALIZATION:
        values.reshape(-1, shape[-1] if len(shape) > 1 else 1)[::2] *= -1
    if layer == "MaxPooling":
        values[0, 99, 99] = 1.4
    return values


def build(case: str, x, precision: str) -> list:
    """Build a layer. Return its output, and the gradients for its input and variables."""
    layer, _, args, kwargs = CASES[case]
    with TowerContext("", is_training=True), precision_scope(precision):
        if layer == "ConcatWith":
            kwargs = {**kwargs, "tensor": x}
        y = getattr(models, layer)(*([] if layer in _WITHOUT_NAME else ["x"]), x, *args, **kwargs)
        y = y[0] if layer in ("LSTM", "GRU") else y
        of_y = 0.03 * (1 + tf.cast(x < 0, tf.float32)) if layer in _NORMALIZATION else tf.fill(tf.shape(y), 0.03)
    variables = tf.trainable_variables()
    return [y, *tf.gradients(y, [x, *variables], grad_ys=tf.cast(of_y, y.dtype))]


def find_errors(case: str, precision: str) -> dict:
    """Return the error of each tensor of a case, by its name, in units of the rounding error."""
    dtype, unit = FORMATS[precision]
    layer, shape, _, _ = CASES[case]
    results = []
    for current in ("float32", precision):
        with tf.Graph().as_default(), tf.Session() as sess:
            rounded = tf.cast(tf.constant(make_input(layer, shape), tf.float32), dtype)
            x = tf.placeholder_with_default(rounded if current == precision else tf.cast(rounded, tf.float32), shape)
            tensors = build(case, x, current)
            sess.run(tf.global_variables_initializer())
            variables = tf.trainable_variables()
            names = ["output", "input", *(var.op.name for var in variables)]
            for var in variables:
                if var.op.name.endswith(("W", "kernel")):
                    # small enough that no gate of a recurrent layer is saturated
                    value = tf.fill(var.shape, 0.03 if "kernel" in var.op.name else 0.3)
                    sess.run(var.assign(tf.cast(tf.cast(value, dtype), tf.float32)))
            results.append(
                [np.asarray(value, np.float64) for value in sess.run([tf.cast(t, tf.float32) for t in tensors])]
            )
    errors = {}
    for name, expected, actual in zip(names, *results):
        assert np.isfinite(expected).all()
        size = max(np.abs(expected).max(), 0.03)  # an exact result may be 0
        errors[name] = float(np.abs(actual - expected).max() / size / unit)
    return errors


def main() -> None:
    """Print the table."""
    print(f"TensorFlow {tensorflow.__version__}; errors in units of the rounding error of the format\n")
    print(f"| layer | {' | '.join(PRECISIONS)} |\n| --- |{' --- |' * len(PRECISIONS)}")
    for case in CASES:
        if len(sys.argv) > 1 and CASES[case][0] not in sys.argv[1:]:
            continue
        worst = [max((value, name) for name, value in find_errors(case, one).items()) for one in PRECISIONS]
        print(f"| {case} | " + " | ".join(f"{value:.1f} ({name})" for value, name in worst) + " |", flush=True)


if __name__ == "__main__":
    main()
