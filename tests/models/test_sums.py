"""Sums over 10000 elements in mixed precision: outputs and gradients of every layer against float32."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from fakes.layers import LAYERS
from fakes.processes import run_python

from tensorpack_lite.compat import TF_VERSION, onednn
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import FullyConnected, l2_regularizer
from tensorpack_lite.tfutils import precision, random
from tensorpack_lite.tfutils.summary import add_tensor_summary
from tensorpack_lite.tfutils.symbolic_functions import psnr, rms

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from precision_layers import CASES, PRECISIONS, find_errors  # noqa: E402

MOST = 2.0  # rounding errors: those of the result, of a gradient that flows in, and of one step between
SLOW = (
    "GRU",
    "LSTM",
    "dilation_rate",
    "split",
    "channels_first",
    "filters",
    "virtual",
    "MaxPooling",
    "AvgPooling",
)
KINDS = [tf.float16] + ([tf.bfloat16] if TF_VERSION >= (2, 0) else [])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow if any(part in case for part in SLOW) else ()) for case in CASES],
)
def test_sums(case, precision):
    """Output and gradients over 10000 equal elements equal those of float32 to the precision of the format."""
    errors = find_errors(case, precision)
    assert max(errors.values()) < MOST, errors


def test_every_layer():
    """The table has all layers."""
    assert set(LAYERS) == {layer for layer, *_ in CASES.values()}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(TF_VERSION < (2, 9), reason="TensorFlow uses oneDNN since 2.9")
def test_without_onednn():
    """Without oneDNN, whose kernels add up in float32, the errors are as small."""
    layers = ["Conv2D", "Conv2DTranspose", "FullyConnected", "AvgPooling"]
    run = run_python(BENCHMARKS / "precision_layers.py", *layers, TF_ENABLE_ONEDNN_OPTS="0")
    errors = [float(number) for number in re.findall(r"([\d.]+) \(", run.stdout)]
    assert len(errors) == 2 * sum(layer in layers for layer, *_ in CASES.values())
    assert max(errors) < MOST, run.stdout


@pytest.mark.parametrize(
    ("num_gpu", "has_onednn", "expected"),
    [(0, False, []), (0, True, [tf.bfloat16]), (1, False, [tf.float16, tf.bfloat16])],
)
def test_products(monkeypatch, num_gpu, has_onednn, expected):
    """Products are computed in 16 bits on a GPU, and in bfloat16 by oneDNN; otherwise in float32, from rounded factors."""
    monkeypatch.setattr(precision, "get_num_gpu", lambda: num_gpu)
    monkeypatch.setattr(precision, "has_bfloat16_products", lambda: has_onednn)
    for dtype in KINDS:
        y = FullyConnected(f"fc_{dtype.name}", tf.zeros([2, 3], dtype), 4, use_bias=False)
        (product,) = [
            op
            for op in tf.get_default_graph().get_operations()
            if op.type == "MatMul" and op.name.startswith(f"fc_{dtype.name}")
        ]
        is_narrow = dtype in expected and (dtype == tf.float16 or TF_VERSION >= (2, 9) or num_gpu)
        assert (dtype if is_narrow else tf.float32, dtype) == (product.inputs[0].dtype, y.dtype)


@pytest.mark.parametrize(
    ("setting", "instructions", "expected"),
    [
        (None, "avx512f avx512_vnni", True), (None, "avx2 avx_vnni", False), (None, "avx2 avx512f", False),
        ("1", "avx512f", True), ("0", "avx512f avx512_vnni", False), (None, "", False),
    ],
)  # fmt: skip
def test_onednn(monkeypatch, setting, instructions, expected):
    """Whether oneDNN multiplies bfloat16 is known from the environment and the instructions of the CPU."""
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if setting is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", setting)
    monkeypatch.setattr(onednn, "_has_instructions", lambda pattern: re.search(pattern, instructions) is not None)
    assert expected == onednn.has_bfloat16_products()


@pytest.mark.parametrize("dtype", KINDS)
def test_statistics(sess, dtype):
    """Root mean square, mean, PSNR and regularizers of a 16-bit tensor are added up in float32."""
    x = tf.placeholder_with_default(tf.cast(tf.fill([10000], 300.0), dtype), [10000])
    add_tensor_summary(x, ["mean", "rms"], name="x")
    summary = tf.Summary.FromString(sess.run(tf.summary.merge_all()))
    np.testing.assert_allclose([value.simple_value for value in summary.value], 300, rtol=4e-3)
    np.testing.assert_allclose(sess.run(rms(x, name="a")), 300, rtol=1e-5)
    np.testing.assert_allclose(sess.run(psnr(x, x - 30, 300)), 20, rtol=1e-2)
    assert sess.run(l2_regularizer(1e-8)(x)) == pytest.approx(4.5, rel=1e-2)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("is_exact", [False, True])
def test_dropout(sess, dtype, is_exact):
    """Dropout with a small rate, which 16 bits cannot represent, drops so many values, in a training with `exact` or without."""
    if is_exact:
        random.make_exact()
    x = tf.ones([200000], dtype)
    dropped = tf.cast(random.dropout(x, rate=0.001, seed=1), tf.float32)
    sess.run(tf.global_variables_initializer())
    values = sess.run(dropped)
    assert 100 < (values == 0).sum() < 300
