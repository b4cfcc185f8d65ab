"""
Writers and readers of each file format, and a program that reads damaged copies: `damaged_files.py FIRST LAST FORMAT ...`.

It prints a line before and after each copy, so that its parent knows which damage ended it. To repeat one copy:
`PYTHONPATH=.:tests python -X faulthandler tests/fakes/damaged_files.py 73 74 mat`.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import types
from pathlib import Path

import numpy as np
from fakes.datasets import blob_proto, pixels, smooth_image, write_mnist
from fakes.mutations import mutate

from tensorpack_lite.dataflow import (
    CaffeLMDB,
    DataFromList,
    HDF5Data,
    HDF5Serializer,
    ImageFromFile,
    LMDBData,
    LMDBSerializer,
    NumpySerializer,
    TFRecordSerializer,
)
from tensorpack_lite.dataflow.dataset import Cifar10, Mnist, SVHNDigit
from tensorpack_lite.dataflow.dataset.files import unpack_tar
from tensorpack_lite.dataflow.dataset.readers import read_blob_proto
from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.manifest_file import read_manifest, write_manifest
from tensorpack_lite.utils.npz import read_npz

__all__ = ["FORMATS", "MEMORY_BYTES", "NEEDS"]

MEMORY_BYTES = 6 << 30  # limit of the address space, of which the readers need 1 to 3 GB
LIMIT_SECONDS = 60  # for one copy, although a read takes milliseconds


def rows(count=40):
    """Return datapoints of three components, some of them larger than a page."""
    rng = np.random.RandomState(0)
    return [[rng.rand(3, 4).astype("float32"), k, rng.bytes(5000 if k % 5 == 0 else 20)] for k in range(count)]


def passed(df):
    """Iterate one pass of a DataFlow."""
    df.reset_state()
    return [None for _ in df]


# Each writer takes a directory and returns the path of the file to damage; each reader takes that path. -----------------


def write_npz(directory):
    rng = np.random.RandomState(0)
    np.savez_compressed(directory + "/m.npz", w=rng.rand(30, 40), b=rng.rand(7), s=np.array("x"))
    return directory + "/m.npz"


def write_numpy_serializer(directory):
    NumpySerializer.save(DataFromList(rows(), shuffle=False), directory + "/d.npz")
    return directory + "/d.npz"


def write_npy(directory):
    np.save(
        directory + "/m.npy",
        {"conv0/W": np.random.RandomState(0).rand(3, 3, 8), "step": np.int64(3), "lr": 0.5},
    )
    return directory + "/m.npy"


def read_npy(path):
    from tensorpack_lite.tfutils.variable_files import load_npy_dict

    load_npy_dict(path)


def write_tfrecord(directory):
    TFRecordSerializer.save(DataFromList(rows(), shuffle=False), directory + "/d.tfrecord")
    return directory + "/d.tfrecord"


def write_lmdb(directory):
    LMDBSerializer.save(DataFromList(rows(400), shuffle=False), directory + "/d.lmdb")
    return directory + "/d.lmdb"


def read_lmdb(path):
    passed(LMDBSerializer.load(path))
    passed(LMDBData(path, shuffle=False))


def write_caffe_lmdb(directory):
    import lmdb

    rng = np.random.RandomState(0)
    environment = lmdb.open(directory + "/c.lmdb", subdir=False, lock=False)
    with environment.begin(write=True) as transaction:
        for k in range(30):
            image = b"\x08\x03\x10\x10\x18\x10\x22\x80\x06" + rng.bytes(768) + b"\x28" + bytes([k])
            transaction.put(b"%08d" % k, image)
    environment.close()
    return directory + "/c.lmdb"


def write_hdf5(directory):
    import h5py

    rng = np.random.RandomState(0)
    with h5py.File(directory + "/d.h5", "w") as file:
        file["image"] = rng.rand(50, 6, 6)
        file.create_dataset("label", data=rng.randint(9, size=50), compression="gzip")
    return directory + "/d.h5"


def write_own_hdf5(directory):
    rng = np.random.RandomState(0)
    df = DataFromList([[rng.rand(6, 6), k] for k in range(50)], shuffle=False)
    HDF5Serializer.save(df, directory + "/d.h5", ["image", "label"])
    return directory + "/d.h5"


def write_cifar(directory):
    folder = directory + "/cifar-10-batches-py"
    os.mkdir(folder)
    with open(folder + "/test_batch", "wb") as file:
        content = {
            b"data": pixels(20, 3072),
            b"labels": [k % 10 for k in range(20)],
            b"names": [b"cat.png"] * 20,
        }
        pickle.dump(content, file, 2)
    return folder + "/test_batch"


def write_idx(directory):
    write_mnist(Path(directory), "t10k")
    return directory + "/t10k-images-idx3-ubyte.gz"


def write_mat(directory, compressed=False):
    from scipy.io import savemat

    content = {"X": pixels(32, 32, 3, 12), "y": np.arange(1, 13).reshape(-1, 1) % 10 + 1}
    savemat(directory + "/test_32x32.mat", content, do_compression=compressed)
    return directory + "/test_32x32.mat"


def write_blob(directory):
    with open(directory + "/mean.binaryproto", "wb") as file:
        file.write(blob_proto(np.random.RandomState(0).rand(192).astype("float32"), (3, 8, 8)))
    return directory + "/mean.binaryproto"


def write_image(directory, name):
    import cv2

    cv2.imwrite(f"{directory}/{name}", smooth_image(70, 90))
    return f"{directory}/{name}"


def write_tar(directory, mode="w"):
    path = directory + "/a.tar"
    with tarfile.open(path, mode) as archive:
        for k in range(6):
            info = tarfile.TarInfo(f"folder/{k}" + "x" * 20 * k)  # the longest names need a separate header
            info.size = 700 * k
            archive.addfile(info, io.BytesIO(np.random.RandomState(k).bytes(info.size)))
    return path


def read_tar(path):
    target = path + ".unpacked"
    try:
        unpack_tar(path, target)
    finally:
        shutil.rmtree(target)


def write_stats_json(directory):
    import json

    with open(directory + "/stats.json", "w") as file:
        json.dump([{"cost": 0.5 / k, "epoch_num": k, "global_step": 10 * k} for k in range(1, 20)], file)
    return directory + "/stats.json"


def read_stats_json(path):
    from tensorpack_lite.callbacks.monitor.json_file import JSONWriter

    JSONWriter.load_existing_json(os.path.dirname(path))
    JSONWriter.load_existing_epoch_number(os.path.dirname(path))


def write_manifest_json(directory):
    code = {
        "script": "/a/train.py",
        "arguments": ["-v"],
        "files": {"train.py": "x = 1\n"},
        "omitted": {},
        "git": {},
    }
    data = [{"type": "FeedInput", "arguments": {"ds": {"type": "FakeData", "length": 3}}}]
    graph = {"fingerprint": "ab", "operations": {"Add": 1}, "variables": {"w": ["float32", [2], True]}}
    rest = {
        "seeds": {"graph": 1},
        "exit": {"outcome": "finished", "global_step": 7},
        "schedules": [],
        "callbacks": [],
    }
    write_manifest(directory + "/manifest.json", {"format": 1, "code": code, "data": data, "graph": graph, **rest})
    return directory + "/manifest.json"


def read_manifest_json(path):
    from tensorpack_lite.diagnostics.diff.run_diff import Run, compare
    from tensorpack_lite.diagnostics.diff.run_verdict import verdict

    runs = [Run(path, read_manifest(path)) for _ in range(2)]
    verdict(compare(*runs), *runs)


def write_stats_csv(directory):
    with open(directory + "/stats.csv", "w") as file:
        file.write("epoch_num,global_step,cost\r\n")
        file.write("".join(f"{k},{10 * k},{0.5 / k}\r\n" for k in range(1, 20)))
    return directory + "/stats.csv"


def read_stats_csv(path):
    from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter

    CSVWriter(path)._read(path)


def write_record(directory):
    write_checkpoint(directory)
    with open(directory + "/model-1.json", "w") as file:
        file.write('{"stat": "error", "step": 1, "value": 0.25}')
    return directory + "/model-1.json"


def read_record(path):
    from tensorpack_lite.callbacks import MinSaver

    saver = MinSaver("error", filename="model-1", checkpoint_dir=os.path.dirname(path))
    saver.trainer = types.SimpleNamespace(global_step=5)
    saver._setup_graph()
    saver._before_train()  # a damaged record is a warning


def write_checkpoint(directory):
    from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars

    rng = np.random.RandomState(0)
    names = [f"layer{k}/{name}" for k in range(5) for name in ("W", "b")]
    save_checkpoint_vars({**{n: rng.rand(9, 20) for n in names}, "step": np.int64(7)}, directory + "/model-1")
    return directory + "/checkpoint"


def write_index(directory):
    write_checkpoint(directory)
    return directory + "/model-1.index"


def write_data(directory):
    write_checkpoint(directory)
    return directory + "/model-1.data-00000-of-00001"


def write_state_file(directory):
    from tensorpack_lite.tfutils.checkpoint_state import write_state

    write_state(directory + "/model-1.state", {"epoch": 3, "rows": list(range(50)), "names": {"a": None, "b": [1.5]}})
    return directory + "/model-1.state"


def read_state_file(path):
    from tensorpack_lite.tfutils.checkpoint_state import read_state

    read_state(path)


def read_checkpoint(path):
    from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars

    load_checkpoint_vars(path)


def reading(make):
    """Return a reader that iterates one pass of the DataFlow of a path."""
    return lambda path: passed(make(path))


read_hdf5 = reading(lambda path: HDF5Data(path, ["image", "label"], shuffle=False))
read_mat = reading(lambda path: SVHNDigit("test", data_dir=os.path.dirname(path), shuffle=False))
read_image = reading(lambda path: ImageFromFile([path]))

FORMATS = {  # name: (writer, reader, errors that are allowed in addition to DamagedFileError)
    "npz": (write_npz, read_npz, ()),
    "npz of NumpySerializer": (
        write_numpy_serializer,
        reading(lambda path: NumpySerializer.load(path, shuffle=False)),
        (),
    ),
    "npy": (write_npy, read_npy, ()),
    "tfrecord": (write_tfrecord, reading(TFRecordSerializer.load), ()),
    "lmdb": (write_lmdb, read_lmdb, ()),
    "lmdb of caffe": (write_caffe_lmdb, reading(lambda path: CaffeLMDB(path, shuffle=False)), ()),
    "hdf5": (write_hdf5, read_hdf5, ("KeyError",)),  # a data set with a damaged name does not exist
    "hdf5 of HDF5Serializer": (write_own_hdf5, read_hdf5, ("KeyError",)),
    "pickle": (write_cifar, reading(lambda path: Cifar10("test", dir=str(Path(path).parents[1]))), ()),
    "idx": (write_idx, reading(lambda path: Mnist("test", dir=os.path.dirname(path))), ()),
    "mat": (write_mat, read_mat, ()),
    "compressed mat": (lambda directory: write_mat(directory, compressed=True), read_mat, ()),
    "blob": (write_blob, read_blob_proto, ()),
    "jpeg": (lambda directory: write_image(directory, "a.jpg"), read_image, ()),
    "png": (lambda directory: write_image(directory, "a.png"), read_image, ()),
    "tar": (write_tar, read_tar, ()),
    "tar.gz": (lambda directory: write_tar(directory, "w:gz"), read_tar, ()),
    "stats.json": (write_stats_json, read_stats_json, ()),
    "manifest.json": (write_manifest_json, read_manifest_json, ()),
    "stats.csv": (write_stats_csv, read_stats_csv, ("ValueError",)),  # its first columns have other names
    "record of a saver": (write_record, read_record, ()),
    "checkpoint": (write_checkpoint, read_checkpoint, ("FileNotFoundError",)),  # a file with a damaged name
    "checkpoint index": (write_index, read_checkpoint, ()),
    "checkpoint data": (write_data, read_checkpoint, ()),
    "checkpoint state": (write_state_file, read_state_file, ()),
}

NEEDS = {  # format: the package that it needs
    "lmdb": "lmdb",
    "lmdb of caffe": "lmdb",
    "hdf5": "h5py",
    "hdf5 of HDF5Serializer": "h5py",
    "jpeg": "cv2",
    "png": "cv2",
    "mat": "scipy",
    "compressed mat": "scipy",
    **dict.fromkeys(
        [
            "npy",
            "stats.json",
            "stats.csv",
            "record of a saver",
            "checkpoint",
            "checkpoint index",
            "checkpoint data",
            "checkpoint state",
        ],
        "tensorflow",
    ),
}


def read_damaged(name, seed, path, content):
    """Read one copy. Return the damage and the result: "noticed", "unnoticed", or the text of a wrong error."""
    _, read, others = FORMATS[name]
    # liblmdb crashes for many damaged pages; the library checks only the size of an LMDB
    kinds = ["truncated"] if name.startswith("lmdb") else None
    kind, damaged = mutate(content, f"{name} {seed}", kinds)
    with open(path, "wb") as file:
        file.write(damaged)
    try:
        read(path)
    except DamagedFileError as error:
        text = str(error)
        prefix = os.path.splitext(path)[0]  # errors name a checkpoint without the suffix of its index
        is_good = prefix in text and "\n" not in text
        return kind, "noticed" if is_good else f"a message without a path, or with several lines: {text}"
    except Exception as error:  # noqa: BLE001 (other types are the result)
        return kind, "noticed" if type(error).__name__ in others else f"{type(error).__name__}: {error}"
    return kind, "unnoticed"


def read_copies(name, first, last):
    """Read the copies of one format with the seeds from first to last - 1."""
    write = FORMATS[name][0]
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(sys.stderr):
        path = write(directory)
        with open(path, "rb") as file:
            content = file.read()
        FORMATS[name][1](path)  # the undamaged file, so that all imports happen before the limit is set
        soft = MEMORY_BYTES if "tensorflow" not in sys.modules else 10 * MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
        for seed in range(first, last):
            tell(f"begin {name} {seed}")
            signal.alarm(LIMIT_SECONDS)
            os.remove(path)  # a new file, because LMDB environments are shared by file
            kind, result = read_damaged(name, seed, path, content)
            tell(f"end {name} {seed}: {kind}: {result}".replace("\n", "\\n"))
        signal.alarm(0)


def tell(line):
    """Print a line at once, even if stdout is redirected."""
    os.write(1, (line + "\n").encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    for one in sys.argv[3:]:
        read_copies(one, int(sys.argv[1]), int(sys.argv[2]))
