"""PlaceholderInput."""

from __future__ import annotations

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.placeholder import PlaceholderInput

SIGNATURE = [TensorSpec([None, 3], tf.float32, "x"), TensorSpec([], tf.int32, "y")]


def test_placeholders_are_named_like_the_inputs():
    """Placeholders have the names, shapes and dtypes of the signature, without the current name scope."""
    source = PlaceholderInput()
    with tf.name_scope("InferenceRunner"):
        source.setup(SIGNATURE)
    x, y = source.get_input_tensors()

    assert ("x:0", "y:0") == (x.name, y.name)
    assert ([None, 3], tf.int32) == (x.shape.as_list(), y.dtype)


def test_two_inputs_share_them():
    """Two inputs in one graph share their placeholders."""
    one, other = PlaceholderInput(), PlaceholderInput()
    one.setup(SIGNATURE)
    other.setup(SIGNATURE)

    for a, b, c in zip(one.get_input_tensors(), one.get_input_tensors(), other.get_input_tensors()):
        assert a is b
        assert a.name == c.name
