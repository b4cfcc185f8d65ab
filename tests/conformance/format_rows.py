"""Rows for DataFlows that read files of other libraries or receive data over a network."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
from conformance.dataflow_rows import IN_ORDER, Row
from fakes.remote import Remote

from tensorpack_lite import dataflow

__all__ = ["FORMAT_NEEDS", "FORMAT_ROWS"]

SHUFFLED = (4, 2, 1, 0, 3, 5, 5, 0, 4, 3)
FORMAT_NEEDS = {
    "HDF5Data": ["h5py"],
    "LMDBData": ["lmdb"],
    "LMDBDataDecoder": ["lmdb"],
    "SVMLightData": ["sklearn"],
}


@functools.lru_cache(maxsize=None)
def file(name: str) -> str:
    """Write a file with six datapoints once, and return its path."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = str(Path(folder) / name)
    # draws no random numbers, so the file may be written before or after the seed is fixed
    six = dataflow.DataFromIterable([[np.array([k, -k], np.float32), k] for k in range(6)])
    if name == "six.h5":
        dataflow.HDF5Serializer.save(six, path, ["array", "number"])
    elif name == "six.lmdb":
        dataflow.LMDBSerializer.save(six, path)
    else:
        Path(path).write_text("".join(f"{k} 1:{k}\n" for k in range(6)))
    return path


def key_as_number(datapoint: list) -> list:
    """Return [value, number of the key]."""
    return [datapoint[1], int(datapoint[0])]


FORMAT_ROWS = [
    Row(
        "HDF5Data",
        lambda _: dataflow.HDF5Data(file("six.h5"), ["array", "number"]),
        SHUFFLED,
        random=True,
        leaf=True,
    ),
    Row(
        "LMDBData",
        lambda _: dataflow.MapData(dataflow.LMDBData(file("six.lmdb")), key_as_number),
        (4, 2, 1, 0, 3, 5, 5, 4, 3, 0),
        random=True,
        leaf=True,
        alone=True,
    ),
    Row(
        "LMDBDataDecoder",
        lambda _: dataflow.LMDBSerializer.load(file("six.lmdb"), shuffle=False),
        IN_ORDER,
        leaf=True,
        needs_reset=True,
        alone=True,
    ),
    Row("SVMLightData", lambda _: dataflow.SVMLightData(file("six.svm")), SHUFFLED, random=True, leaf=True),
    Row("RemoteDataZMQ", lambda _: Remote(), IN_ORDER, length=None, infinite=True, leaf=True, alone=True),
]
