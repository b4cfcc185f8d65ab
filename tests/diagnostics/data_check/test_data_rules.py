"""Rules of lint about datapoints, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.diagnostics.data_check.data_rules import (
    LabelRuns,
    ZeroImages,
    different_ranges,
    image_range,
    labels_out_of_range,
    not_finite,
)


def first_remark(labels, batch=64):
    """Feed labels in batches; return the first remark and the number of labels until then."""
    runs = LabelRuns("label")
    for start in range(0, len(labels), batch):
        remark = runs.feed(labels[start : start + batch])
        if remark is not None:
            return remark, start + batch
        if runs.is_done:
            break
    return None


class TestLabelRuns:
    def test_sorted_labels(self):
        """Sorted labels, in batches or alone, have a remark after four windows; the number of classes is exp(entropy)."""
        remark, number = first_remark(np.repeat(np.arange(10), 1000), batch=500)
        assert ("D01", "label", 2000) == (remark.rule, remark.name, number)
        assert "500 in a row have about 1.0 classes, all of them 2.0." in remark.text
        assert first_remark(np.repeat(np.arange(10), 1000), batch=1)

    @pytest.mark.parametrize("classes", [2, 10, 100, 1000])
    def test_shuffled_labels(self, classes):
        """Shuffled labels have no remark, whatever the number of classes, and also if one of them is rare."""
        for seed in range(5):
            random = np.random.RandomState(seed)
            assert first_remark(random.randint(0, classes, 20000)) is None
            assert first_remark((random.rand(20000) < 0.1 / classes).astype(int)) is None

    def test_small_buffer(self):
        """A shuffle buffer of 1000 labels on 10 sorted classes of 5000 has a remark; one of 20000 labels has none."""

        def through_buffer(size):
            rng, buffer, given = np.random.RandomState(0), [], []
            for label in np.repeat(np.arange(10), 5000):
                buffer.append(label)
                if len(buffer) > size:
                    given.append(buffer.pop(rng.randint(len(buffer))))
            return np.array(given)

        assert first_remark(through_buffer(1000))
        assert first_remark(through_buffer(20000)) is None

    def test_end(self):
        """After 50,000 labels, the rule needs no more."""
        runs = LabelRuns("label")
        runs.feed(np.zeros(49999, int))
        assert not runs.is_done
        runs.feed(np.zeros(1, int))
        assert runs.is_done


def test_labels_out_of_range():
    """Labels below 0 or not below the number of classes have a remark with the range."""
    assert labels_out_of_range("label", np.array([0, 9]), 10) is None
    assert labels_out_of_range("label", np.zeros([0], int), 10) is None
    for labels in ([0, 10], [-1, 3]):
        remark = labels_out_of_range("label", np.array(labels), 10)
        assert ("D02", "label") == (remark.rule, remark.name)
        assert f"labels are in {labels}, but the last layer has 10 classes, from 0 to 9." == remark.text


def test_not_finite():
    """NaN and infinity have a remark with their number; integers have none."""
    assert not_finite("x", np.ones(3)) is None
    assert not_finite("x", np.array([1, 2])) is None
    assert "2 of 3 values of a datapoint are NaN or infinite." == not_finite("x", np.array([1, np.nan, -np.inf])).text


def test_zero_images():
    """Two datapoints with only zeros have one remark; vectors, and images after other ones, have none."""
    black, gray = np.zeros([4, 8, 8]), np.ones([4, 8, 8])
    rule = ZeroImages("image")
    assert [None, "D02", None] == [getattr(rule.feed(image), "rule", None) for image in (black, black, black)]
    rule = ZeroImages("image")
    assert [None] * 4 == [rule.feed(image) for image in (black, gray, black, gray)]
    rule = ZeroImages("x")
    assert [None] * 3 == [rule.feed(np.zeros([4, 100])) for _ in range(3)]


def test_ranges():
    """Only ranges like [0, 1] and [0, 255] differ, in both directions, and only for images of floating-point numbers."""
    for ranges in ((1.0, 255.0), (250.0, 1.0), (1.9, 128.0)):
        assert "D03" == different_ranges("image", *ranges).rule
    for ranges in ((1.0, 1.0), (1.0, 5.0), (255.0, 200.0), (0.01, 255.0), (1.0, 1e4)):
        assert different_ranges("image", *ranges) is None
    assert 2.5 == image_range(np.full([4, 8, 8], -2.5))
    assert [None] * 3 == [image_range(a) for a in (np.ones([4, 8]), np.ones([4, 8, 8], int), np.ones([2, 2, 2]))]
