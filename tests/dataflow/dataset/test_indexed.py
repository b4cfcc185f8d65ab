"""Tests of the base classes of datasets."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.dataflow.dataset.indexed import LabelledFiles, LabelledImages, StoredPairs


def test_different_lengths():
    """Different numbers of images and labels raise ValueError."""
    with pytest.raises(ValueError, match="StoredPairs: there are 2 images, but 3 labels"):
        StoredPairs([1, 2], [1, 2, 3], shuffle=False)


def test_labelled_images():
    """The attribute `images` has a channel axis, which scripts for metric learning rely on, and values in [0, 1]."""
    pixels = np.arange(42, dtype=np.uint8).reshape(7, 2, 3)
    images = LabelledImages(pixels, pixels[:, 0, 0], white=41, shuffle=True)
    assert ((7, 2, 3, 1), np.float32, 1) == (images.images.shape, images.images.dtype, images.images.max())
    assert ((7,), np.uint8, 7) == (images.labels.shape, images.labels.dtype, len(images))


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
