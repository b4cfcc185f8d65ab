"""Without an optional package, the constructor raises an ImportError with the command that installs it, in the main process."""

from __future__ import annotations

import os
import sys

import pytest

from tensorpack_lite.dataflow import (
    DataFromList,
    HDF5Data,
    HDF5Serializer,
    ImageFromFile,
    LMDBData,
    LMDBSerializer,
    RemoteDataZMQ,
    SVMLightData,
    dataset,
    imgaug,
    send_dataflow_zmq,
)
from tensorpack_lite.dataflow.dataset.readers import read_image, read_mat
from tensorpack_lite.dataflow.network.pyzmq import load_zmq

DATA = DataFromList([[1, 2]], shuffle=False)
OPENCV = [
    lambda: imgaug.Resize(3),
    lambda: imgaug.ResizeShortestEdge(3),
    lambda: imgaug.RandomResize((1, 2)),
    lambda: imgaug.GoogleNetRandomCropAndResize(),
    lambda: imgaug.Shift(0.1),
    lambda: imgaug.Rotation(3),
    lambda: imgaug.RotationAndCropValid(3),
    lambda: imgaug.Affine(),
    lambda: imgaug.ColorSpace(4),
    lambda: imgaug.Grayscale(),
    lambda: imgaug.Hue(),
    lambda: imgaug.Saturation(),
    lambda: imgaug.GaussianBlur(),
    lambda: imgaug.JpegNoise(),
    lambda: ImageFromFile(["x.png"]),
    lambda: dataset.ILSVRC12("/data", "val"),
    lambda: dataset.Places365Standard("/data", "train"),
    lambda: read_image("x"),
]
CASES = [
    *(("cv2", "needs OpenCV", build) for build in OPENCV),
    ("lmdb", "LMDBData: needs lmdb", lambda: LMDBData("x")),
    ("lmdb", "LMDBSerializer: needs lmdb", lambda: LMDBSerializer.save(DATA, "x")),
    ("h5py", "HDF5Data: needs h5py", lambda: HDF5Data("x", ["x"])),
    ("h5py", "HDF5Serializer: needs h5py", lambda: HDF5Serializer.save(DATA, "x", ["a", "b"])),
    ("sklearn.datasets", "SVMLightData: needs scikit-learn", lambda: SVMLightData("x")),
    ("sklearn.datasets", "Digits: needs scikit-learn", lambda: dataset.Digits("train")),
    ("scipy.io", "read_mat: needs SciPy", lambda: read_mat("x", "a")),
    ("zmq", "Data from other machines: needs ZMQ", load_zmq),
    ("zmq", "Data from other machines: needs ZMQ", lambda: RemoteDataZMQ("tcp://127.0.0.1:1")),
    ("zmq", "Data from other machines: needs ZMQ", lambda: send_dataflow_zmq(DATA, "tcp://127.0.0.1:1")),
]


@pytest.mark.parametrize(("module", "text", "use"), CASES)
def test_a_missing_package(module, text, use, monkeypatch, tmp_path):
    """The error names the class and the package, and no file is left."""
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match=f"{text}, which is not installed. Run: pip install"):
        use()
    assert [] == os.listdir(".")
