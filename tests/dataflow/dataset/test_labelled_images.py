"""Tests of the base class of grayscale images with labels."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.base import NotResetError
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


def test_shuffled_pairs_stay_together(images):
    """In each order, each image keeps its label and occurs once."""
    images.reset_state()
    orders = []
    for _ in range(5):
        datapoints = list(images)
        assert all(label == round(float(image[0, 0]) * 41) for image, label in datapoints)
        orders.append(tuple(int(label) for _, label in datapoints))
        assert [0, 6, 12, 18, 24, 30, 36] == sorted(orders[-1])
    assert len(set(orders)) > 1


def test_shuffling_needs_reset(images):
    """Shuffling without `reset_state` raises an error."""
    with pytest.raises(NotResetError, match="LabelledImages"):
        next(iter(images))


def test_lists_are_new(images):
    """Modifying the list of a datapoint does not modify the dataset."""
    images.shuffle = False
    for datapoint in images:
        datapoint.clear()
    assert {2} == {len(datapoint) for datapoint in images}


def test_different_lengths():
    """Different numbers of images and labels raise ValueError."""
    with pytest.raises(ValueError, match="LabelledImages: there are 2 images, but 3 labels"):
        LabelledImages(np.zeros((2, 4, 4)), np.zeros(3), white=1, shuffle=False)
