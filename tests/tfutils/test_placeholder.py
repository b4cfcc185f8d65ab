"""Tests of tfutils/placeholder.py: one placeholder for each name and shape."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.placeholder import build_or_reuse_placeholder


def spec(shape=(None, 3), dtype=tf.float32, name="x"):
    return TensorSpec(shape, dtype, name)


def test_created_at_root():
    """The placeholder is created at the root of the graph, inside any scope."""
    with tf.name_scope("scope"):
        x = build_or_reuse_placeholder(spec())
    assert ("x:0", [None, 3], tf.float32) == (x.name, x.shape.as_list(), x.dtype)


def test_reused():
    """The same name and shape, also of unknown rank, return the same placeholder; another shape creates a new one."""
    x = build_or_reuse_placeholder(spec())
    assert x is build_or_reuse_placeholder(spec())
    assert "x_1:0" == build_or_reuse_placeholder(spec((5, 3))).name
    unknown = build_or_reuse_placeholder(spec(None, name="y"))
    assert unknown is build_or_reuse_placeholder(spec(None, name="y"))


@pytest.mark.parametrize("other", [spec(dtype=tf.int32), spec((None,))])
def test_incompatible(other):
    """The same name with another dtype or rank raises a ValueError."""
    build_or_reuse_placeholder(spec())
    with pytest.raises(
        ValueError, match=r"Input 'x': the graph has a different placeholder of this name .*, got float32"
    ):
        build_or_reuse_placeholder(other)


def test_name_taken():
    """A name that belongs to another operation raises a ValueError."""
    tf.constant(1.0, name="x")
    with pytest.raises(ValueError, match="expected a placeholder, got Const"):
        build_or_reuse_placeholder(spec())
