"""Tests of the base classes of datasets."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.dataset.indexed import LabelledFiles, StoredPairs


def pairs(shuffle):
    """Return a dataset of seven one-pixel images; the label is ten times the pixel."""
    return StoredPairs(np.arange(7)[:, np.newaxis], [10 * k for k in range(7)], shuffle)


class TestStoredPairs:
    def test_in_order(self):
        """Without shuffling, each pass has the order of the arrays and needs no `reset_state`."""
        flow = pairs(shuffle=False)
        for _ in range(2):
            assert [[0, 0], [1, 10], [2, 20]] == [[int(image[0]), label] for image, label in flow][:3]
        assert 7 == len(flow) == len(list(iter(flow)))

    def test_shuffled(self):
        """With shuffling, each image occurs once per pass with its label, in a changing order."""
        flow = pairs(shuffle=True)
        flow.reset_state()
        orders = set()
        for _ in range(5):
            labels = [label for image, label in flow if label == 10 * int(image[0])]
            assert [0, 10, 20, 30, 40, 50, 60] == sorted(labels)
            orders.add(tuple(labels))
        assert len(orders) > 1

    def test_different_lengths(self):
        """Different numbers of images and labels raise ValueError."""
        with pytest.raises(ValueError, match="StoredPairs: there are 2 images, but 3 labels"):
            StoredPairs([1, 2], [1, 2, 3], shuffle=False)


class TestLabelledFiles:
    def test_paths(self, tmp_path):
        """Datapoints are complete paths with labels."""
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(b"")
        flow = LabelledFiles(str(tmp_path), [("a", 4), ("b", 5)], shuffle=False)
        assert [[str(tmp_path / "a"), 4], [str(tmp_path / "b"), 5]] == list(iter(flow))

    @pytest.mark.parametrize(("absent", "refused"), [(9, True), (10, False)])
    def test_first_ten_files_are_checked(self, tmp_path, absent, refused):
        """A missing file among the first ten raises ValueError; later ones are not checked."""
        names = [f"{k}.jpg" for k in range(12)]
        for k, name in enumerate(names):
            if k != absent:
                (tmp_path / name).write_bytes(b"")
        imglist = [(name, 0) for name in names]
        if not refused:
            assert 12 == len(LabelledFiles(str(tmp_path), imglist, shuffle=False))
            return
        with pytest.raises(ValueError, match=r"LabelledFiles: the list of images contains .*9\.jpg.*right directory"):
            LabelledFiles(str(tmp_path), imglist, shuffle=False)
