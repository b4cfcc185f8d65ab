"""Tests of the metadata of ImageNet, on small files in the format of Caffe's archive."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.datasets import WNIDS, blob_proto, tar, write_ilsvrc_meta
from fakes.web import serving

from tensorpack_lite.dataflow.dataset import ilsvrc_meta
from tensorpack_lite.dataflow.dataset.ilsvrc_meta import ILSVRCMeta


@pytest.fixture
def meta(tmp_path):
    """Return the metadata of six classes."""
    write_ilsvrc_meta(tmp_path)
    return ILSVRCMeta(str(tmp_path))


class TestClasses:
    def test_words(self, meta):
        """A description is a whole line."""
        words = meta.get_synset_words_1000()
        assert ([0, 1, 2, 3, 4, 5], "n00000003 thing 3, whatsit") == (list(words), words[3])

    def test_names(self, meta):
        """The IDs are those of WordNet."""
        assert dict(enumerate(WNIDS[:6])) == meta.get_synset_1000()


class TestImageList:
    def test_train(self, meta):
        """Training images are always in folders by class."""
        for structure in ("original", "train"):
            images = meta.get_image_list("train", structure)
            assert (("n00000002/n00000002_2.JPEG", 2), 6) == (images[2], len(images))

    @pytest.mark.parametrize(
        ("structure", "path"),
        [
            ("original", "ILSVRC2012_val_00000002.JPEG"),
            ("train", "n00000002/ILSVRC2012_val_00000002.JPEG"),
        ],
    )
    def test_val(self, meta, structure, path):
        """Validation images are in one folder, or in folders by class."""
        assert (path, 2) == meta.get_image_list("val", structure)[2]

    def test_test(self, meta):
        """All labels of the test split are 0."""
        assert {0} == {label for _, label in meta.get_image_list("test")}

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            (("extra",), "ILSVRCMeta: name is unknown .expected 'train', 'val' or 'test', got 'extra'"),
            (
                ("val", "flat"),
                "ILSVRCMeta: dir_structure is unknown .expected 'original' or 'train', got 'flat'",
            ),
        ],
    )
    def test_other_names(self, meta, arguments, match):
        """Unknown names raise ValueError."""
        with pytest.raises(ValueError, match=match):
            meta.get_image_list(*arguments)

    @pytest.mark.parametrize("line", ["a.JPEG", "a.JPEG x", " 3", "a.JPEG -1"])
    def test_other_lines(self, meta, tmp_path, line):
        """An invalid line raises ValueError, which names the file and the line."""
        (tmp_path / "val.txt").write_text(f"b.JPEG 0\n{line}\n")
        with pytest.raises(
            ValueError, match=f"val.txt: a line is invalid .expected a path and a label, got '{line.strip()}'"
        ):
            meta.get_image_list("val")

    def test_labels_beyond_the_classes(self, meta, tmp_path):
        """Labels beyond the classes raise ValueError."""
        (tmp_path / "val.txt").write_text("b.JPEG 6\n")
        with pytest.raises(ValueError, match="val.txt has the label 6, but synsets.txt has 6 classes"):
            meta.get_image_list("val", "train")


class TestMean:
    def test_as_in_the_file(self, meta):
        """The three planes of the file become three channels in BGR order."""
        mean = meta.get_per_pixel_mean()
        np.testing.assert_array_equal(np.arange(48).reshape(3, 4, 4).transpose(1, 2, 0), mean)
        assert np.float32 == mean.dtype

    @pytest.mark.parametrize(("size", "shape"), [((2, 8), (2, 8, 3)), (2, (2, 2, 3)), ([8, 2], (8, 2, 3))])
    def test_resized(self, meta, size, shape):
        """The mean is resized to (height, width) with linear interpolation."""
        pytest.importorskip("cv2")
        mean = meta.get_per_pixel_mean(size)
        assert shape == mean.shape
        np.testing.assert_allclose([7.5, 23.5, 39.5], mean.mean(axis=(0, 1)), atol=1e-3)

    def test_other_shapes(self, meta, tmp_path):
        """A blob of another shape raises ValueError."""
        blob = blob_proto(np.zeros(4, "<f4"), (1, 2, 2))
        (tmp_path / "imagenet_mean.binaryproto").write_bytes(blob)
        with pytest.raises(ValueError, match=r"has the wrong shape .expected \[3, height, width\], got \[2, 2\]"):
            meta.get_per_pixel_mean()


class TestGuess:
    @pytest.mark.parametrize(("entry", "structure"), [("n01440764", "train"), ("a.JPEG", "original")])
    def test_by_the_first_entry(self, tmp_path, entry, structure):
        """The first entry, a class folder or an image, determines the structure."""
        if structure == "train":
            (tmp_path / entry).mkdir()
        else:
            (tmp_path / entry).write_bytes(b"")
        assert structure == ILSVRCMeta.guess_dir_structure(str(tmp_path))

    def test_image_whose_name_starts_with_n(self, tmp_path):
        """An image whose name starts with "n" is not a class folder."""
        (tmp_path / "n01440764_10026.JPEG").write_bytes(b"")
        assert "original" == ILSVRCMeta.guess_dir_structure(str(tmp_path))

    @pytest.mark.parametrize("name", ["", "absent"])
    def test_empty_folder(self, tmp_path, name):
        """An empty or missing folder raises ValueError."""
        with pytest.raises(ValueError, match="does not exist or is empty"):
            ILSVRCMeta.guess_dir_structure(str(tmp_path / name))


class TestArchive:
    @pytest.fixture
    def web(self, tmp_path, monkeypatch):
        """Serve the archive, and make the class download it from there."""
        write_ilsvrc_meta(tmp_path / "source")
        (tmp_path / "web").mkdir()
        tar(tmp_path / "web" / "caffe_ilsvrc12.tar.gz", tmp_path / "source")
        monkeypatch.setenv("no_proxy", "*")
        with serving(tmp_path / "web") as (url, asked):
            monkeypatch.setattr(ilsvrc_meta, "_ORIGIN", ilsvrc_meta.Origin("caffe_ilsvrc12.tar.gz", (url,)))
            yield asked

    def test_download(self, web, tmp_path, monkeypatch):
        """The archive is downloaded once, when a file is needed, to the directory that tensorpack uses."""
        monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
        meta = ILSVRCMeta()
        assert [] == web
        assert 6 == len(meta.get_synset_1000()) == len(meta.get_image_list("train"))
        assert ["/caffe_ilsvrc12.tar.gz"] == web
        assert (tmp_path / "ilsvrc_metadata" / "synsets.txt").is_file()

    def test_existing_files_stay(self, web, tmp_path):
        """Existing files are not replaced by those in the archive."""
        target = tmp_path / "target"
        target.mkdir()
        (target / "val.txt").write_text("mine.JPEG 3\n")
        meta = ILSVRCMeta(str(target))
        assert [("n00000003/mine.JPEG", 3)] == meta.get_image_list("val", "train")
        assert 6 == len(meta.get_image_list("train"))

    def test_archive_without_the_file(self, web, tmp_path):
        """An archive without the file raises ValueError."""
        (tmp_path / "source" / "synsets.txt").unlink()
        tar(tmp_path / "web" / "caffe_ilsvrc12.tar.gz", tmp_path / "source")
        with pytest.raises(ValueError, match="caffe_ilsvrc12.tar.gz does not contain synsets.txt. Delete it"):
            ILSVRCMeta(str(tmp_path / "target")).get_synset_1000()
