"""Tests of the table of variables and of the text of shapes."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.model_utils import describe_trainable_vars, get_shape_str


class TestDescribe:
    def test_table_and_totals(self, capsys):
        """The table has name, shape and elements, and the total size counts 4 bytes per float."""
        tf.get_variable("fc/W", shape=[512, 1024])
        tf.get_variable("fc/b", shape=[10])
        describe_trainable_vars()
        text = capsys.readouterr().out
        assert [["fc/W", "[512,", "1024]", "524288"], ["fc/b", "[10]", "10"]] == [
            line.split() for line in text.splitlines() if line.startswith("fc/")
        ]
        assert "(elements): 524298" in text
        assert "2.00MB" in text

    def test_leaves_out_other_towers_and_untrained(self, capsys):
        """Copies in other towers and untrained variables are not listed, but one that a tower created for all is."""
        describe_trainable_vars()
        assert "The graph has no trainable variables." in capsys.readouterr().out
        for name in ("fc/W", "tower1/fc/W", "tower0/dense/kernel"):
            tf.get_variable(name, shape=[2])
        tf.get_variable("ema", shape=[2], trainable=False)
        describe_trainable_vars()
        text = capsys.readouterr().out
        assert "Number of trainable variables: 2\n" in text
        assert "tower0/dense/kernel" in text
        assert "tower1" not in text

    def test_shows_dtype_and_device_where_they_differ(self, capsys):
        """The columns for dtype and device appear only if they are needed."""
        tf.get_variable("a", shape=[2])
        describe_trainable_vars()
        assert "dtype" not in capsys.readouterr().out
        with tf.device("/cpu:0"):
            tf.get_variable("b", shape=[2], dtype=tf.float64)
        describe_trainable_vars()
        text = capsys.readouterr().out
        assert "float64" in text
        assert "CPU:0" in text

    def test_unknown_shape(self, capsys):
        """A variable without a static shape has no size, so the totals of elements and bytes are omitted."""
        tf.Variable(tf.placeholder(tf.float32, None), validate_shape=False, use_resource=True, name="shapeless")
        describe_trainable_vars()
        text = capsys.readouterr().out
        assert "Number of trainable variables: 1" in text
        assert "elements)" not in text


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([[None, 3]], "[?, 3]"),
        ([[]], "[]"),
        ([None], "<unknown>"),
        ([[None, 3], [4]], "[?, 3], [4]"),
    ],
)
def test_get_shape_str(shapes, expected):
    """Unknown sizes are question marks, and several shapes are separated by commas."""
    tensors = [tf.placeholder(tf.float32, shape) for shape in shapes]
    assert expected == get_shape_str(tensors[0] if len(tensors) == 1 else tensors)
