"""Mistakes in calls of layers: each raises an error that names the layer and what was expected."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import (
    GRU,
    LSTM,
    AvgPooling,
    BatchNorm,
    BatchRenorm,
    Conv2D,
    Conv2DTranspose,
    Dropout,
    FixedUnPooling,
    FullyConnected,
    GlobalAvgPooling,
    InstanceNorm,
    LayerNorm,
    Maxout,
    MaxPooling,
    MultiHeadAttention,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tensorpack_lite.models.arguments import get_activation
from tensorpack_lite.models.checks import require_integer, require_pair
from tensorpack_lite.models.shape_utils import StaticDynamicShape
from tensorpack_lite.tfutils.tower.context import TowerContext

NAN, INF = float("nan"), float("inf")
POOLS = [(MaxPooling, (2,)), (AvgPooling, (2,)), (GlobalAvgPooling, ()), (FixedUnPooling, (2,))]
L2 = l2_regularizer(1.0)


def images(*shape):
    return tf.placeholder(tf.float32, shape or [4, 8, 6, 4])


def vectors():
    return tf.zeros([4, 3])


def conv(x=None, filters=6, size=3, *args, **kwargs):
    return Conv2D("c", images() if x is None else x, filters, size, *args, **kwargs)


def norm(x=None, **kwargs):
    return BatchNorm("bn", images() if x is None else x, **kwargs)


def rnn(x=None, **kwargs):
    return LSTM("rnn", tf.placeholder(tf.float32, [4, 7, 3]) if x is None else x, 2, **kwargs)


def attend(x=None, heads=3, **kwargs):
    return MultiHeadAttention("a", tf.zeros([4, 7, 6]) if x is None else x, heads, **kwargs)


def drop(*args, **kwargs):
    return Dropout(tf.ones([2, 2]), *args, **kwargs)


STATE = "initial_state has the wrong form"
MISTAKES = [
    # the form of the input
    (lambda: conv(images(None, 28, 28)), ValueError, r"Conv2D 'c': the input has the wrong rank \(expected 4: "
     r"\[N, H, W, C\], got 3: \[None, 28, 28\]\). Use tf.expand_dims\(x, 3\) for images with one channel."),
    (lambda: conv(images(None, 28, 28), data_format="NCHW"), ValueError, r"\[N, C, H, W\], .*expand_dims\(x, 1\)"),
    (lambda: conv(tf.placeholder(tf.float32)), ValueError, "Conv2D 'c': the input has an unknown rank"),
    (lambda: conv(images(None, 8, 8, None)), ValueError, r"the number of channels is unknown \(axis 3 of"),
    (lambda: conv(images(None, None, 8, 8), data_format="NCHW"), ValueError, r"channels is unknown \(axis 1 of"),
    (lambda: Conv2DTranspose("c", images(None, 4), 6, 3), ValueError, "Conv2DTranspose 'c': the input .*, got 2"),
    (lambda: norm(images(4, 3, 2)), ValueError, r"\(expected 2: \[N, C\] or 4: .*, got 3: \[4, 3, 2\]"),
    (lambda: norm(images(None, None)), ValueError, r"channels is unknown \(axis 1 of \[None, None\]\)"),
    (lambda: LayerNorm("n", images(2, 3, 3)), ValueError, r"LayerNorm 'n': the input .*, got 3: \[2, 3, 3\]"),
    (lambda: InstanceNorm("n", images(2, 3, 3)), ValueError, r"InstanceNorm 'n': the input .*, got 3: \[2, 3, 3\]"),
    (lambda: InstanceNorm("n", images(2, 4)), ValueError, r"\(expected 4: \[N, H, W, C\], got 2: \[2, 4\]\)"),
    (lambda: LayerNorm("n", images(None, 3, 3, None)), ValueError, "number of channels is unknown"),
    (lambda: InstanceNorm("n", images(None, 3, 3, None)), ValueError, "number of channels is unknown"),
    (lambda: FullyConnected("f", images(None, None, 2), 3), ValueError, "FullyConnected 'f': the shape .*unknown"),
    (lambda: Maxout(vectors(), 2), ValueError, "num_unit is invalid .expected a divisor of the 3 channels, got 2"),
    (lambda: rnn(images(None, 3)), ValueError, r"LSTM 'rnn': the input has the wrong shape \(expected 3 axes"),
    (lambda: rnn(images(None, 7, None)), ValueError, "expected 3 axes"),
    (lambda: rnn(tf.placeholder(tf.float32)), ValueError, "expected 3 axes"),
    (lambda: rnn(tf.zeros([4, 7, 3], tf.int32)), ValueError, "wrong dtype .*got int32.*embedding_lookup"),
    (lambda: rnn(images(None, None, 3), unroll=True), ValueError, "unroll=True needs a known number of steps"),
    (lambda: rnn(images(2, 0, 3)), ValueError, "'rnn': the input has no steps"),
    (lambda: StaticDynamicShape(tf.placeholder(tf.float32)), ValueError, "the rank of .* is unknown"),
    # arguments of convolutions
    (lambda: conv(None, 6, 3, 2), TypeError, r"too many .* \(expected 3: inputs, filters, kernel_size, got 4\)"),
    (lambda: conv(nl=tf.identity, activation=tf.nn.relu), TypeError, "'nl' and 'activation' are the same argument"),
    (lambda: conv(strde=2), TypeError, "there is no argument 'strde'. Did you mean 'strides'"),
    (lambda: conv(split=3), ValueError, "Conv2D 'c': split is invalid .expected a .*, got 3"),
    (lambda: conv(split=4), ValueError, "Conv2D 'c': split is invalid .expected a .*, got 4"),
    (lambda: conv(split=0), ValueError, "Conv2D 'c': split is invalid .expected a .*, got 0"),
    (lambda: conv(strides=2, dilation_rate=2), ValueError, r"cannot be combined \(got \[2, 2\] and \[2, 2\]\)"),
    (lambda: conv(padding="full"), ValueError, "padding is unknown .expected 'same' or 'valid'"),
    (lambda: conv(padding=None), ValueError, "padding is unknown .expected 'same' or 'valid'"),
    (lambda: MaxPooling("p", images(), 2, padding="full"), ValueError, "padding is unknown .*, got 'full'"),
    (lambda: FixedUnPooling("u", tf.zeros([1, 1, 1, 1]), 2, unpool_mat=np.ones([3, 3])), ValueError,
     r"'u': unpool_mat has the wrong shape \(expected \[2, 2\], got \[3, 3\]\)"),
    # arguments of normalization
    (lambda: norm(axis=2), ValueError, r"'bn': axis .* of rank 4 is unknown \(expected 1 or 3, got 2\)"),
    (lambda: norm(vectors(), axis=3), ValueError, r"axis for an input of rank 2 is unknown \(expected 1, got 3\)"),
    (lambda: norm(ema_update="never"), ValueError, "ema_update is unknown .*'internal' or 'skip', got 'never'"),
    (lambda: norm(training=tf.constant(True)), TypeError, "training has the wrong type .* got a tensor"),
    (lambda: norm(virtual_batch_size=3), ValueError, r"\(expected a divisor of the batch size 4, got 3\)"),
    (lambda: norm(virtual_batch_size=0), ValueError, "virtual_batch_size is invalid .*positive integer, got 0"),
    (lambda: norm(sync_statistics="mpi"), ValueError, "unknown .*'nccl', 'horovod' or 'collective', got 'mpi'"),
    (lambda: norm(sync_statistics="NCCL", virtual_batch_size=2), ValueError, "cannot be combined"),
    (lambda: BatchNorm("n", images(), 3), TypeError, "too many positional .*expected 1: inputs, got 2"),
    (lambda: BatchRenorm("n", images(), 3), TypeError, "too many positional .*expected 1: inputs, got 2"),
    (lambda: LayerNorm("n", images(), 3), TypeError, "too many positional .*expected 1: inputs, got 2"),
    (lambda: InstanceNorm("n", images(), 3), TypeError, "too many positional .*expected 1: inputs, got 2"),
    # arguments of recurrent layers
    (lambda: rnn(num_layers=0), ValueError, r"num_layers is invalid \(expected a positive integer, got 0\)"),
    (lambda: GRU("rnn", images(4, 7, 3), 0), ValueError, r"GRU 'rnn': units .*\(expected a positive integer, got 0\)"),
    (lambda: rnn(sequence_length=[1, 2]), ValueError, "sequence_length has the wrong shape"),
    (lambda: rnn(sequence_length=7), ValueError, "sequence_length has the wrong shape"),
    (lambda: rnn(sequence_length=[1.0] * 4), ValueError, r"wrong dtype \(expected integers, got float32\)"),
    (lambda: rnn(mask=np.ones([7, 4])), ValueError, "mask has the wrong shape"),
    (lambda: rnn(initial_state=tf.zeros([4, 2])), ValueError, STATE + r".*LSTMStateTuple\(c='\[N, 2\]', h='\[N, 2\]'\)"),
    (lambda: rnn(initial_state=[tf.zeros([4, 2])] * 3), ValueError, STATE),
    (lambda: rnn(initial_state=[tf.zeros([4, 2])] * 2, num_layers=2), ValueError, STATE),
    (lambda: rnn(initial_state=[tf.zeros([4, 3])] * 2), ValueError, "a part of initial_state has the wrong shape"),
    (lambda: rnn(initial_state=[tf.zeros([5, 2])] * 2), ValueError, "a part of initial_state has the wrong shape"),
    # arguments of attention
    (lambda: attend(vectors()), ValueError, r"MultiHeadAttention 'a': the input has the wrong shape \(expected 3 axes"),
    (lambda: attend(images(None, 7, None)), ValueError, "expected 3 axes"),
    (lambda: attend(tf.zeros([4, 7, 6], tf.int32)), ValueError, "wrong dtype .*got int32.*embedding_lookup"),
    (lambda: attend(heads=4), ValueError, r"'a': the input has 6 features \(expected a multiple of the 4 heads\). Pass key_dim"),
    (lambda: attend(heads=0), ValueError, "num_heads is invalid .expected a positive integer, got 0"),
    (lambda: attend(key_dim=0), ValueError, "key_dim is invalid"),
    (lambda: attend(key=tf.zeros([4, 7, 6])), ValueError, "key is given without value"),
    (lambda: attend(value=tf.zeros([3, 5, 6])), ValueError, "value has the wrong shape .expected .4,"),
    (lambda: attend(value=tf.zeros([4, 5, 6], tf.float64)), ValueError, "value .* .expected float32, got float64"),
    (lambda: attend(value=tf.zeros([4, 5, 6]), key=tf.zeros([4, 6, 6])), ValueError, "key has the wrong shape"),
    (lambda: attend(value=tf.zeros([4, 5, 6]), causal=True), ValueError, "got 5 keys and 7 queries"),
    (lambda: attend(key_mask=np.ones([4, 6], bool)), ValueError, r"key_mask .*\(expected \[N, S\], here \[4, 7\], got \(4, 6\)"),
    (lambda: attend(key_mask=np.ones([4, 7])), ValueError, "key_mask has the wrong dtype .*got float64.* score_bias"),
    (lambda: attend(attention_mask=np.ones([7, 7], bool)), ValueError, r"attention_mask has the wrong .*mask\[None\]"),
    (lambda: attend(attention_mask=np.ones([4, 2, 7, 7], bool)), ValueError, "attention_mask has the wrong shape"),
    (lambda: attend(dropout=1.0), ValueError, "'a': dropout is out of range"),
    (lambda: attend(dropout=0.5, training=tf.constant(True)), TypeError, "training has the wrong type"),
    # Dropout
    (lambda: drop(keep_prob=0.5, rate=0.5), ValueError, "keep_prob and rate cannot be combined"),
    (lambda: drop(0.5, rate=0.5), ValueError, "keep_prob and rate cannot be combined"),
    (lambda: drop(0.5, keep_prob=0.5), ValueError, "keep_prob is given twice"),
    (lambda: drop(0.5, None), TypeError, "too many positional arguments .expected 1: keep_prob, got 2"),
    (lambda: drop(rate=1.0), ValueError, "rate is out of range .expected 0 <= x < 1, got 1.0"),
    (lambda: drop(rate=-0.1), ValueError, "rate is out of range .*got -0.1"),
    (lambda: drop(keep_prob=1.5), ValueError, "rate is out of range .*got -0.5"),
    (lambda: drop(is_training=True, training=True), ValueError, "is_training and training are the same argument"),
    (lambda: drop(rate=0.5, training=tf.constant(True)), TypeError, "training .*expected True or False, got a tensor"),
    (lambda: drop(colour=1), TypeError, "there is no argument 'colour'"),
    # numbers, pairs and activations
    *[(lambda number=number: conv(filters=number), ValueError, "filters is invalid .expected a positive integer, got")
      for number in (2.5, 0, -1, NAN, INF, tf.Dimension(0))],
    (lambda: require_integer("Layer", "size", tf.Dimension(None)), ValueError, "size is unknown .*Use x.set_shape"),
    (lambda: require_integer("Layer", "size", None), ValueError, "Layer: size is unknown .*Use x.set_shape"),
    (lambda: require_integer("Layer", "size", "3"), TypeError, "Layer: size .*expected a positive integer, got"),
    (lambda: require_integer("Layer", "size", [3]), TypeError, "Layer: size .*expected a positive integer, got"),
    (lambda: FullyConnected("f", images(), tf.constant(3)), TypeError, "'f': units has the wrong type .*Tensor"),
    (lambda: require_pair("Layer", "size", (1, 2, 3)), ValueError, r"size has the wrong length .*got \(1, 2, 3\)"),
    (lambda: require_pair("Layer", "size", "33"), TypeError, "Layer: size has the wrong type"),
    (lambda: get_activation("rely"), ValueError, "activation is unknown .expected 'linear', 'elu', .* got 'rely'"),
    (lambda: get_activation(1), TypeError, "expected a function of one tensor, a name or None, got int"),
    (lambda: regularize_cost("", L2), ValueError, "regularize_cost: regex is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_a_mistake(call, error, message):
    """The error has the type for this mistake, and its message says what was expected."""
    with TowerContext("", is_training=True), pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("layer", "args"), POOLS)
def test_images_of_pools(layer, args):
    """Inputs that are not images, and an unknown data_format, raise a ValueError."""
    with pytest.raises(ValueError, match=rf"{layer.__name__} 'p': the input .* got 2: \[None, 8\]"):
        layer("p", images(None, 8), *args)
    with pytest.raises(ValueError, match="data_format is unknown .*got 'CNHW'"):
        layer("q", images(), *args, data_format="CNHW")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (norm, "BatchNorm 'bn'"),
        (lambda: drop(rate=0.5), "Dropout"),
        (lambda: regularize_cost(".*", L2), "regularize_cost"),
        (regularize_cost_from_collection, "regularize_cost_from_collection"),
    ],
)
def test_no_tower(call, name):
    """Outside of a tower, what needs to know whether it trains raises a RuntimeError."""
    with pytest.raises(RuntimeError, match=f"{name}: called outside of a tower"):
        call()
