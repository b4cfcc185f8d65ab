"""What all data sets have in common."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.base import NotResetError
from tensorpack_lite.dataflow.dataset.indexed import LabelledFiles, StoredPairs, require_split


def pairs(shuffle):
    """Seven images of one pixel; the label is ten times the pixel."""
    return StoredPairs(np.arange(7)[:, np.newaxis], [10 * k for k in range(7)], shuffle)


class TestStoredPairs:
    def test_in_order(self):
        """As in the arrays, on every pass, without `reset_state`."""
        flow = pairs(shuffle=False)
        for _ in range(2):
            assert [[0, 0], [1, 10], [2, 20]] == [[int(image[0]), label] for image, label in flow][:3]
        assert 7 == len(flow) == len(list(iter(flow)))

    def test_shuffled(self):
        """Each image keeps its label, and comes once a pass, in an order that changes."""
        flow = pairs(shuffle=True)
        flow.reset_state()
        orders = set()
        for _ in range(5):
            labels = [label for image, label in flow if label == 10 * int(image[0])]
            assert [0, 10, 20, 30, 40, 50, 60] == sorted(labels)
            orders.add(tuple(labels))
        assert len(orders) > 1

    def test_shuffling_needs_reset(self):
        """A clear error."""
        with pytest.raises(NotResetError, match="StoredPairs"):
            next(iter(pairs(shuffle=True)))

    def test_lists_are_fresh(self):
        """What is done to a datapoint's list is not done to the data set."""
        flow = pairs(shuffle=False)
        for datapoint in flow:
            datapoint.clear()
        assert {2} == {len(datapoint) for datapoint in flow}

    def test_numbers_that_differ(self):
        """Files of two data sets."""
        with pytest.raises(ValueError, match="StoredPairs: 2 images, but 3 labels"):
            StoredPairs([1, 2], [1, 2, 3], shuffle=False)


class TestLabelledFiles:
    def test_paths(self, tmp_path):
        """Whole paths, with their labels."""
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(b"")
        flow = LabelledFiles(str(tmp_path), [("a", 4), ("b", 5)], shuffle=False)
        assert [[str(tmp_path / "a"), 4], [str(tmp_path / "b"), 5]] == list(iter(flow))

    @pytest.mark.parametrize(("absent", "refused"), [(9, True), (10, False)])
    def test_the_first_ten_must_be_there(self, tmp_path, absent, refused):
        """The one absent is named; beyond ten nobody looks."""
        names = [f"{k}.jpg" for k in range(12)]
        for k, name in enumerate(names):
            if k != absent:
                (tmp_path / name).write_bytes(b"")
        imglist = [(name, 0) for name in names]
        if not refused:
            assert 12 == len(LabelledFiles(str(tmp_path), imglist, shuffle=False))
            return
        with pytest.raises(ValueError, match=r"LabelledFiles: there is no file .*9\.jpg.*right directory"):
            LabelledFiles(str(tmp_path), imglist, shuffle=False)


@pytest.mark.parametrize(
    ("wanted", "match"),
    [
        (("train", "test"), "str: train_or_test must be 'train' or 'test', got 'valid'"),
        (("train", "val", "test"), "str: train_or_test must be 'train', 'val' or 'test', got 'valid'"),
    ],
)
def test_require_split(wanted, match):
    """The class and the names are in the sentence."""
    with pytest.raises(ValueError, match=match):
        require_split("", "valid", wanted)


def test_require_split_argument():
    """The argument is called as in the constructor."""
    with pytest.raises(ValueError, match="str: name must be 'train', got None"):
        require_split("", None, ("train",), argument="name")
