"""Tests of the base class of grayscale images with labels."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.dataset.indexed import LabelledImages


@pytest.fixture
def images():
    """Return seven images of 2x3 pixels; the label is the first pixel."""
    pixels = np.arange(42, dtype=np.uint8).reshape(7, 2, 3)
    return LabelledImages(pixels, pixels[:, 0, 0], white=41, shuffle=True)


def test_datapoints(images):
    """Datapoints are float32 in [0, 1] without a channel axis, and an np.uint8 label."""
    images.shuffle = False
    image, label = list(images)[6]
    np.testing.assert_allclose(np.arange(36, 42).reshape(2, 3) / 41, image, rtol=1e-6)
    assert (np.float32, np.uint8, 36) == (image.dtype, type(label), label)
    assert 1 == image.max()


def test_attributes(images):
    """The attribute `images` has a channel axis, which scripts for metric learning rely on."""
    assert ((7, 2, 3, 1), np.float32) == (images.images.shape, images.images.dtype)
    assert ((7,), np.uint8) == (images.labels.shape, images.labels.dtype)
    assert 7 == len(images)
