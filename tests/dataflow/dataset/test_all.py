"""What all datasets have in common: names of splits, default directories, and what happens without a network."""

from __future__ import annotations

import pytest
from conformance.dataset_rows import NEEDS
from fakes import datasets as fabricated

from tensorpack_lite.dataflow import dataset
from tensorpack_lite.dataflow.dataset import files
from tensorpack_lite.dataflow.dataset.ilsvrc_meta import ILSVRCMeta

TRAIN_AND_TEST = "'train' or 'test'"


@pytest.fixture(autouse=True)
def needs_packages(request):
    """Skip datasets whose package is not installed."""
    for package in NEEDS.get(request.node.callspec.params["name"], []):
        pytest.importorskip(package)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The directory of datasets."""
    monkeypatch.setenv("TENSORPACK_DATASET", str(tmp_path))
    return tmp_path


def write_ilsvrc(root):
    """Write the images of ImageNet, and its metadata in their default directory."""
    fabricated.write_ilsvrc_meta(root / "ilsvrc_metadata")
    fabricated.write_ilsvrc12(root / "images", root / "ilsvrc_metadata")


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Mnist", ("val",), TRAIN_AND_TEST),
        ("FashionMnist", (None,), TRAIN_AND_TEST),
        ("Cifar10", ("val",), TRAIN_AND_TEST),
        ("Cifar100", (None,), TRAIN_AND_TEST),
        ("Digits", ("val",), TRAIN_AND_TEST),
        ("SVHNDigit", ("val",), "'train', 'test' or 'extra'"),
        ("Caltech101Silhouettes", ("extra",), "'train', 'test' or 'val'"),
        ("BSDS500", ("all",), "'train', 'val' or 'test'"),
        ("ILSVRC12Files", ("/nowhere", "tset"), "'train', 'val' or 'test'"),
        ("TinyImageNet", ("/nowhere", "test"), "'train' or 'val'"),
        ("Places365Standard", ("/nowhere", "test"), "'train' or 'val'"),
    ],
)
def test_unknown_splits(name, arguments, expected):
    """The name of an unknown split raises ValueError, which lists the splits, before files are searched."""
    with pytest.raises(ValueError, match=f"^{name}: .* is unknown .expected {expected}, got {arguments[-1]!r}"):
        getattr(dataset, name)(*arguments)


@pytest.mark.parametrize(
    ("name", "write", "splits"),
    [
        ("Mnist", lambda root: fabricated.write_mnist(root / "mnist_data", "t10k"), {"test": True}),
        ("FashionMnist", lambda root: fabricated.write_mnist(root / "fashion_mnist_data"), {"train": True}),
        (
            "Cifar10",
            lambda root: fabricated.write_cifar10(root / "cifar10_data"),
            {"train": True, "test": False},
        ),
        (
            "Cifar100",
            lambda root: fabricated.write_cifar100(root / "cifar100_data"),
            {"train": True, "test": False},
        ),
        ("SVHNDigit", lambda root: fabricated.write_svhn(root / "svhn_data", "extra"), {"extra": True}),
        ("SVHNDigit", lambda root: fabricated.write_svhn(root / "svhn_data", "test"), {"test": True}),
        (
            "Caltech101Silhouettes",
            lambda root: fabricated.write_caltech101(root / "caltech101_data"),
            {"train": True, "val": True, "test": True},
        ),
        ("BSDS500", lambda root: fabricated.write_bsds500(root / "bsds500_data", "val", 1), {"val": True}),
        ("BSDS500", lambda root: fabricated.write_bsds500(root / "bsds500_data", "test", 1), {"test": True}),
    ],
)
def test_default_directories(name, write, splits, root):
    """The default directory is named as in tensorpack. One split needs only its own files, and has its own default of `shuffle`."""
    write(root)
    assert splits == {split: getattr(dataset, name)(split).shuffle for split in splits}


@pytest.mark.parametrize(
    ("name", "write", "splits"),
    [
        ("ILSVRC12Files", write_ilsvrc, {"train": True, "val": False, "test": False}),
        (
            "TinyImageNet",
            lambda root: fabricated.write_tiny_imagenet(root / "images"),
            {"train": True, "val": False},
        ),
        (
            "Places365Standard",
            lambda root: fabricated.write_places(root / "images"),
            {"train": True, "val": False},
        ),
    ],
)
def test_shuffle(name, write, splits, root):
    """By default, only the training split is shuffled."""
    write(root)
    assert splits == {split: getattr(dataset, name)(str(root / "images"), split).shuffle for split in splits}


@pytest.mark.parametrize(
    ("name", "build", "file"),
    [
        ("Mnist", lambda: dataset.Mnist("train"), "train-images-idx3-ubyte.gz"),
        ("Cifar10", lambda: dataset.Cifar10("test"), "cifar-10-python.tar.gz"),
        ("Cifar100", lambda: dataset.Cifar100("test"), "cifar-100-python.tar.gz"),
        ("SVHNDigit", lambda: dataset.SVHNDigit("test"), "test_32x32.mat"),
        (
            "Caltech101Silhouettes",
            lambda: dataset.Caltech101Silhouettes("val"),
            "caltech101_silhouettes_28_split1.mat",
        ),
        ("BSDS500", lambda: dataset.BSDS500("train"), "BSR_bsds500.tgz"),
        ("ILSVRCMeta", lambda: ILSVRCMeta().get_synset_1000(), "caffe_ilsvrc12.tar.gz"),
    ],
)
def test_without_a_network(name, build, file, root, monkeypatch):
    """Without a network, the OSError names the file, the directory, the source, the argument and the failure; checksums are published ones."""
    asked = []

    def no_network(url, dir, md5=None):
        asked.append(md5)
        raise OSError("no route to host")

    monkeypatch.setattr(files, "download", no_network)
    with pytest.raises(OSError, match=f"{name}: {file} is not in {root}/.*could not be downloaded") as info:
        build()
    for part in ("(from http", f"{name}(..., ", "dir=...)", "no route to host"):
        assert part in str(info.value)
    if name not in ("Caltech101Silhouettes", "BSDS500", "ILSVRCMeta"):
        assert {16} == {len(bytes.fromhex(md5)) for md5 in asked}
