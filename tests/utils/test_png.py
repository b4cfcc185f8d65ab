"""Tests of the PNG encoder."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.utils.png import encode_png


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (40, 70)])
def test_tensorflow_reads_it_back(channels, size):
    """TensorFlow decodes the same pixels, for every number of channels."""
    tf = pytest.importorskip("tensorflow").compat.v1
    image = np.random.RandomState(0).randint(0, 256, size=[*size, channels]).astype("uint8")
    with tf.Graph().as_default(), tf.Session() as session:
        decoded = session.run(tf.image.decode_png(tf.constant(encode_png(image))))
    np.testing.assert_array_equal(image, decoded)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros([2, 2, 3]),
        np.zeros([2, 2], "uint8"),
        np.zeros([2, 2, 5], "uint8"),
        np.zeros([0, 2, 3], "uint8"),
    ],
)
def test_refuses_other_arrays(image):
    """Another dtype or shape raises a ValueError that names both."""
    with pytest.raises(
        ValueError,
        match=r"expected uint8 \[H, W, C\] with 1 to 4 channels, got (float64|uint8) \(.*\)\)\. Convert",
    ):
        encode_png(image)
