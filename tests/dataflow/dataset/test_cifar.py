"""Tests of CIFAR-10 and CIFAR-100, on small archives as written by Python 2."""

from __future__ import annotations

import hashlib
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from fakes.datasets import pixels, python2_pickle, tar, write_cifar10, write_cifar100
from fakes.web import serving

from tensorpack_lite.dataflow.dataset import cifar
from tensorpack_lite.dataflow.dataset.cifar import Cifar10, Cifar100, CifarBase

FOLDER = "cifar-10-batches-py"


def image(k, seed, rows) -> np.ndarray:
    """Return the image of a row: three planes of 32 x 32 become three channels."""
    return np.stack(pixels(rows, 3072, seed=seed)[k].reshape(3, 32, 32), axis=-1)


@pytest.fixture
def ten(tmp_path):
    """Return the directory of the unpacked CIFAR-10."""
    write_cifar10(tmp_path)
    return str(tmp_path)


@pytest.fixture
def hundred(tmp_path):
    """Return the directory of the unpacked CIFAR-100."""
    write_cifar100(tmp_path)
    return str(tmp_path)


class TestReading:
    def test_datapoints(self, ten):
        """Datapoints are [uint8 (32, 32, 3) in RGB order, int], in the order of the five files."""
        datapoints = list(iter(Cifar10("train", shuffle=False, dir=ten)))
        expected = [image(0, 1, 2), image(1, 1, 2), *(image(0, seed, 1) for seed in (2, 3, 4, 5))]
        np.testing.assert_array_equal(expected, [pixel for pixel, _ in datapoints])
        assert [0, 1, 2, 3, 4, 5] == [label for _, label in datapoints]
        assert {(np.dtype("uint8"), (32, 32, 3), int)} == {(i.dtype, i.shape, type(k)) for i, k in datapoints}

    def test_the_length_is_that_of_the_files(self, ten):
        """The length is the number of images in the files."""
        assert (6, 4) == (len(Cifar10("train", dir=ten)), len(Cifar10("test", dir=ten)))

    def test_cifar100(self, hundred):
        """The labels of CIFAR-100 are the fine ones."""
        test = Cifar100("test", dir=hundred)
        assert [99, 98] == [label for _, label in test]
        assert 6 == len(Cifar100("train", dir=hundred))

    def test_directory_named_train(self, tmp_path):
        """A directory with "train" in its name does not change the test split."""
        write_cifar100(tmp_path / "training")
        assert 2 == len(Cifar100("test", dir=str(tmp_path / "training")))

    def test_the_base(self, hundred):
        """`cifar_classnum` selects the archive."""
        assert 2 == len(CifarBase("test", dir=hundred, cifar_classnum=100))

    @pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
    def test_files_written_by_this_python(self, ten, protocol):
        """Files written by this version of Python, with NumPy labels, can be read."""
        for labels in ([np.int64(3), np.int64(4)], np.array([3, 4])):
            content = pickle.dumps({b"data": pixels(2, 3072), b"labels": labels}, protocol)
            with open(os.path.join(ten, FOLDER, "test_batch"), "wb") as file:
                file.write(content)
            assert [3, 4] == [label for _, label in Cifar10("test", dir=ten)]


class TestMeans:
    def test_per_pixel(self, ten):
        """The mean over both splits weights each image equally."""
        train = Cifar10("train", shuffle=False, dir=ten)
        images = [pixel for name in ("train", "test") for pixel, _ in Cifar10(name, shuffle=False, dir=ten)]
        mean = train.get_per_pixel_mean()
        np.testing.assert_allclose(np.mean(images, axis=0), mean, rtol=1e-6)
        assert ((32, 32, 3), np.float32) == (mean.shape, mean.dtype)

    def test_of_one_split(self, ten):
        """The mean of one split can be computed, also of the one that is not loaded."""
        test = np.mean([pixel for pixel, _ in Cifar10("test", dir=ten)], axis=0)
        np.testing.assert_allclose(test, Cifar10("train", dir=ten).get_per_pixel_mean(("test",)), rtol=1e-6)

    def test_per_channel(self, ten):
        """The channels are red, green, blue."""
        train = Cifar10("train", dir=ten)
        expected = train.images.mean(axis=(0, 1, 2))
        np.testing.assert_allclose(expected, train.get_per_channel_mean(["train"]), rtol=1e-5)

    @pytest.mark.parametrize(
        ("names", "match"),
        [
            (("val",), "Cifar10: names is unknown .expected 'train' or 'test', got 'val'"),
            ((), "Cifar10: names is empty"),
        ],
    )
    def test_other_names(self, ten, names, match):
        """Unknown or missing names raise ValueError."""
        with pytest.raises(ValueError, match=match):
            Cifar10("test", dir=ten).get_per_pixel_mean(names)


class TestLabelNames:
    def test_ten(self, ten):
        """The names are str, in the order of the labels."""
        names = Cifar10("test", dir=ten).get_label_names()
        assert ("airplane", "truck", 10) == (names[0], names[9], len(names))

    def test_hundred(self, hundred):
        """The names of CIFAR-100 are those of the fine classes."""
        assert [f"thing {k}" for k in range(100)] == Cifar100("test", dir=hundred).get_label_names()

    def test_missing_names(self, ten):
        """A metadata file without the names raises ValueError."""
        with open(os.path.join(ten, FOLDER, "batches.meta"), "wb") as file:
            file.write(python2_pickle({"labels": [1]}))
        with pytest.raises(ValueError, match="batches.meta does not contain the list 'label_names'"):
            Cifar10("test", dir=ten).get_label_names()


class TestMistakes:
    def test_other_numbers_of_classes(self):
        """Another number of classes raises ValueError."""
        with pytest.raises(ValueError, match="CifarBase: cifar_classnum is unknown .expected 10 or 100, got 20"):
            CifarBase("train", cifar_classnum=20)

    def test_missing_file(self, ten):
        """A missing file raises ValueError, which names it and the remedy."""
        os.remove(os.path.join(ten, FOLDER, "data_batch_3"))
        with pytest.raises(ValueError, match=f"Cifar10: data_batch_3 is not in .*{FOLDER}. Delete that folder"):
            Cifar10("train", dir=ten)

    @pytest.mark.parametrize(
        ("content", "match"),
        [
            ({"labels": [1, 2]}, r"'data' is invalid .expected uint8 \[N, 3072\], got NoneType"),
            (
                {"data": pixels(2, 3000), "labels": [1, 2]},
                r"'data' is invalid .expected uint8 .*, got uint8 \[2, 3000\]",
            ),
            ({"data": [1, 2], "labels": [1, 2]}, "got 2 in a list"),
            (
                {"data": pixels(2, 3072), "labels": [1]},
                "'labels' is invalid .expected 2 labels, got 1 in a list",
            ),
            ({"data": pixels(2, 3072)}, "'labels' is invalid .expected 2 labels, got NoneType"),
            ({"data": pixels(2, 3072), "labels": [1, 10]}, "a label is invalid .expected 0 to 9, got 10"),
            ({"data": pixels(2, 3072), "labels": [1, -1]}, "a label is invalid .expected 0 to 9, got -1"),
        ],
    )
    def test_other_contents(self, ten, content, match):
        """Invalid contents raise ValueError, which names the file and the expected content."""
        with open(os.path.join(ten, FOLDER, "test_batch"), "wb") as file:
            file.write(python2_pickle(content))
        with pytest.raises(ValueError, match=f"test_batch: .*{match}"):
            Cifar10("test", dir=ten)


class TestArchive:
    @pytest.fixture
    def archive(self, tmp_path):
        """Return a directory that contains only the packed archive."""
        write_cifar10(tmp_path / "source")
        (tmp_path / "web").mkdir()
        tar(tmp_path / "web" / "cifar-10-python.tar.gz", tmp_path / "source")
        return tmp_path / "web"

    def test_existing_archive(self, archive):
        """An archive in the directory is unpacked once, and not needed afterwards."""
        assert 4 == len(Cifar10("test", dir=str(archive)))
        (archive / "cifar-10-python.tar.gz").unlink()
        assert 6 == len(Cifar10("train", dir=str(archive)))

    @pytest.mark.parametrize("right", [True, False])
    def test_download(self, archive, tmp_path, monkeypatch, right):
        """The archive is downloaded over HTTP; a file with the wrong checksum raises an error and is not kept."""
        monkeypatch.setenv("no_proxy", "*")
        md5 = hashlib.md5((archive / "cifar-10-python.tar.gz").read_bytes()).hexdigest()
        target = tmp_path / "target"
        with serving(archive) as (url, asked):
            origin = replace(cifar._CIFAR10.archive, mirrors=(url,), **({"md5": md5} if right else {}))
            monkeypatch.setattr(cifar, "_CIFAR10", replace(cifar._CIFAR10, archive=origin))
            if right:
                assert 4 == len(Cifar10("test", dir=str(target)))
                assert 6 == len(Cifar10("train", dir=str(target)))
            else:
                with pytest.raises(OSError, match=f"wrong md5 .expected c58f30108f718f92721af3b95e74349a, got {md5}"):
                    Cifar10("test", dir=str(target))
                assert [] == os.listdir(str(target))
        assert ["/cifar-10-python.tar.gz"] == asked
