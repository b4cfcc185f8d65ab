"""
Serializers, which save a DataFlow to a file and load it again.

In:  a DataFlow, iterated once.
Out: a file; and a DataFlow that reads it.

Each class has two functions, `save` and `load`. `save` writes to a temporary file and renames it when it is
complete. It never overwrites an existing file.

Use LMDB for random access to large data, TFRecord for sequential reading, HDF5 to exchange data with other
programs, and NumPy for small data. LMDB and TFRecord store any datapoint with `utils.serialize`, whose
default is pickle: load only files that you trust.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import Any, Iterator, Sequence

import numpy as np

from ..utils.checks import check_at_least
from ..utils.errors import DamagedFileError, parsing
from ..utils.npz import open_npz, read_npy_header
from ..utils.optional import load_optional
from ..utils.plain_pickle import check_plain, load_plain
from ..utils.serialize import dumps, loads
from .base import DataFlow, Datapoint, length_or_none, require_dataflow
from .files.lmdb_files import KEYS_ENTRY, LMDBWriter, ValueParser
from .files.saving import one_pass, written_aside
from .files.tfrecord import read_records, write_record
from .format import HDF5Data, LMDBData, LMDBDataDecoder
from .raw import DataFromGenerator, DataFromList
from .repeat import FixedSizeData

_KEY_DIGITS = 8


class LMDBSerializer:
    """
    Serializer for LMDB databases.

    Keys are consecutive numbers ("00000000", "00000001", ...), values are datapoints packed by
    `utils.serialize.dumps`, and the entry `__keys__` lists the keys. tensorpack can read these files, and
    this class can read tensorpack's.

    Example:
        >>> LMDBSerializer.save(df, "train.lmdb")
        >>> df = LMDBSerializer.load("train.lmdb")
    """

    @staticmethod
    def save(df: DataFlow, path: str, write_frequency: int = 5000) -> None:
        """
        Write one pass of a DataFlow to a file.

        Args:
            df: the DataFlow; it is reset.
            path: path of the file, or of an existing directory, into which `data.mdb` is written.
            write_frequency: number of datapoints in a transaction; fewer if they exceed 64 MB.

        Raises:
            TypeError: `df` is not a DataFlow.
            ValueError: `write_frequency` is below 1.
            FileExistsError: the file already exists.
            ImportError: lmdb is not installed.
        """
        require_dataflow("LMDBSerializer.save", df)
        check_at_least("LMDBSerializer.save: write_frequency", write_frequency, 1)
        target = os.path.join(path, "data.mdb") if os.path.isdir(path) else os.fspath(path)
        keys = []
        # so that the keys sort in numerical order
        digits = max(_KEY_DIGITS, len(str((length_or_none(df) or 1) - 1)))
        with written_aside("LMDBSerializer", target) as temporary, closing(
            LMDBWriter(temporary, write_frequency)
        ) as writer:
            for number, datapoint in enumerate(one_pass(df)):
                keys.append(str(number).zfill(digits).encode("ascii"))
                writer.put(keys[-1], dumps(datapoint))
            writer.put(KEYS_ENTRY, dumps(keys))
            writer.flush()

    @staticmethod
    def load(path: str, shuffle: bool = True) -> LMDBDataDecoder:
        """
        Load a file that `save` wrote, in this library or in tensorpack. Values may be pickle or msgpack.

        Args:
            path: path of the file or the directory.
            shuffle: whether to use a new random order in each pass, instead of that of the file.

        Returns:
            A picklable DataFlow, which opens the file in `reset_state`.

        Raises:
            FileNotFoundError: there is no database.
            DamagedFileError: the file is damaged; (while iterating) a value is damaged.
            ImportError: lmdb is not installed.
        """
        return LMDBDataDecoder(LMDBData(path, shuffle=shuffle), ValueParser(path, "a datapoint", loads))


class TFRecordSerializer:
    """
    Serializer for TFRecord files. Each record is a datapoint packed by `utils.serialize.dumps`. TensorFlow is
    not needed.

    Example:
        >>> TFRecordSerializer.save(df, "train.tfrecord")
        >>> df = TFRecordSerializer.load("train.tfrecord", size=50000)
    """

    @staticmethod
    def save(df: DataFlow, path: str) -> None:
        """
        Write one pass of a DataFlow to a file.

        Args:
            df: the DataFlow; it is reset.
            path: path of the file, on a local disk.

        Raises:
            TypeError: `df` is not a DataFlow.
            FileExistsError: the file already exists.

        Difference from tensorpack: tensorpack overwrites an existing file.
        """
        require_dataflow("TFRecordSerializer.save", df)
        with written_aside("TFRecordSerializer", path) as temporary, open(temporary, "wb") as file:
            for datapoint in one_pass(df):
                write_record(file, dumps(datapoint))

    @staticmethod
    def load(path: str, size: int | None = None) -> DataFlow:
        """
        Load a file that `save` wrote, in this library or in tensorpack. Datapoints keep their order.

        Args:
            path: path of the file, which must not be compressed.
            size: number of datapoints, which a TFRecord file does not store. It becomes the length of the DataFlow and
                of a pass. Default: the length is unknown.

        Returns:
            A picklable DataFlow, which opens the file once for each pass.

        Raises:
            FileNotFoundError: the file does not exist.
            DamagedFileError: (while iterating) the file is damaged or truncated; the message has the number
                of the record.
        """
        if not os.path.isfile(path):
            raise FileNotFoundError(f"TFRecordSerializer.load: the file {path} does not exist.")
        records = DataFromGenerator(partial(_read_datapoints, os.fspath(path)))
        return records if size is None else FixedSizeData(records, size)


class NumpySerializer:
    """
    Serializer for compressed NumPy files (".npz"). All data is held in memory when a file is written or read.

    Like tensorpack's, the file contains an array of Python objects, `buffer`, which NumPy stores as a pickle.
    It is read with a restricted unpickler, which accepts only plain data (numbers, texts, lists, tuples,
    dicts and arrays) and cannot run code.

    Example:
        >>> NumpySerializer.save(df, "train.npz")
        >>> df = NumpySerializer.load("train.npz")
    """

    @staticmethod
    def save(df: DataFlow, path: str) -> None:
        """
        Write one pass of a DataFlow to a file.

        Args:
            df: the DataFlow; it is reset.
            path: path of the file; ".npz" is appended if it is missing.

        Raises:
            TypeError: `df` is not a DataFlow, or a datapoint contains other objects than plain data.
            FileExistsError: the file already exists.

        Difference from tensorpack: tensorpack saves any picklable object, and overwrites an existing file. This library
        saves plain data only.
        """
        require_dataflow("NumpySerializer.save", df)
        with written_aside("NumpySerializer", _with_npz(path)) as temporary:
            datapoints = []
            for number, datapoint in enumerate(one_pass(df)):
                try:
                    check_plain(datapoint)
                except TypeError as error:
                    advice = "Use LMDBSerializer for other objects."
                    raise TypeError(f"NumpySerializer: datapoint {number}: {error}. {advice}") from error
                datapoints.append(datapoint)
            # np.array() would convert the datapoints themselves
            buffer = np.empty(len(datapoints), dtype=object)
            for number, datapoint in enumerate(datapoints):
                buffer[number] = datapoint
            with open(temporary, "wb") as file:
                np.savez_compressed(file, buffer=buffer)

    @staticmethod
    def load(path: str, shuffle: bool = True) -> DataFromList:
        """
        Load a file that `save` wrote, in this library or in tensorpack.

        Args:
            path: path of the file, with or without ".npz".
            shuffle: whether to use a new random order in each pass.

        Returns:
            A DataFlow that holds all datapoints in memory.

        Raises:
            FileNotFoundError: the file does not exist.
            DamagedFileError: the file is damaged, is too large when unpacked, or contains other objects than
                plain data.
        """
        path = os.fspath(path) if os.path.isfile(path) else _with_npz(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"NumpySerializer.load: the file {path} does not exist.")
        return DataFromList(_read_npz(path), shuffle=shuffle)


class HDF5Serializer:
    """
    Serializer for HDF5 files, with one dataset for each component and one row for each datapoint.

    Components are numbers or bytes, or arrays of them with equal shapes. All data is held in memory when a
    file is written or read.

    Example:
        >>> HDF5Serializer.save(df, "train.h5", ["image", "label"])
        >>> df = HDF5Serializer.load("train.h5", ["image", "label"])
    """

    @staticmethod
    def save(df: DataFlow, path: str, data_paths: Sequence[str]) -> None:
        """
        Write one pass of a DataFlow to a file.

        Args:
            df: a DataFlow of lists; it is reset.
            path: path of the file.
            data_paths: paths of the datasets in the file, one for each component.

        Raises:
            TypeError: `df` is not a DataFlow.
            ValueError: a datapoint has another number of components, or a component has several shapes or an
                unsupported dtype.
            FileExistsError: the file already exists.
            ImportError: h5py is not installed.

        Difference from tensorpack: tensorpack overwrites an existing file.
        """
        require_dataflow("HDF5Serializer.save", df)
        h5py = load_optional("h5py", "HDF5Serializer")
        with written_aside("HDF5Serializer", path) as temporary:
            columns: list[list[Any]] = [[] for _ in data_paths]
            for number, datapoint in enumerate(one_pass(df)):
                if not isinstance(datapoint, (list, tuple)) or len(datapoint) != len(columns):
                    got = f"{type(datapoint).__name__} of {len(datapoint)}"
                    raise ValueError(
                        f"HDF5Serializer.save: datapoint {number} does not match data_paths (expected a list of "
                        f"{len(columns)}, one component for each of {list(data_paths)}, got a {got})."
                    )
                for column, component in zip(columns, datapoint):
                    column.append(component)
            arrays = [_stacked(name, column) for name, column in zip(data_paths, columns)]
            with h5py.File(temporary, "w") as file:
                for name, array in zip(data_paths, arrays):
                    # fletcher32 is a checksum of each chunk
                    file.create_dataset(name, data=array, fletcher32=array.size > 0)

    @staticmethod
    def load(path: str, data_paths: Sequence[str], shuffle: bool = True) -> HDF5Data:
        """
        Load a file that `save` wrote, or any HDF5 file with datasets of equal length.

        Args:
            path: path of the file.
            data_paths: paths of the datasets, one for each component.
            shuffle: whether to use a new random order in each pass.
        """
        return HDF5Data(path, data_paths, shuffle=shuffle)


def _read_datapoints(path: str) -> Iterator[Datapoint]:
    for number, record in enumerate(read_records(path)):
        with parsing(f"{path}: record {number}", "a datapoint"):
            datapoint = loads(record)
        yield datapoint


def _with_npz(path: str) -> str:
    name = os.fspath(path)
    return name if name.endswith(".npz") else name + ".npz"


def _read_npz(path: str) -> list[Any]:
    """Read the array `buffer`: its header with NumPy, its objects with the restricted unpickler."""
    with open_npz(path) as archive, archive.open("buffer.npy") as file:
        buffer = load_plain(file) if read_npy_header(file)[2].hasobject else None
    if not (isinstance(buffer, np.ndarray) and buffer.ndim):
        raise DamagedFileError(f"NumpySerializer: {path} does not contain an array of datapoints.")
    return [_as_datapoint(element) for element in buffer]


def _as_datapoint(element: object) -> Datapoint:
    """Split a datapoint whose components tensorpack joined into one array because they had equal shapes."""
    if not (isinstance(element, np.ndarray) and element.ndim):
        return element
    return [np.array(row.tolist()) if isinstance(row, np.ndarray) else row for row in element]


def _stacked(name: str, column: list[Any]) -> np.ndarray:
    shapes = {np.shape(component) for component in column}
    if len(shapes) > 1:
        raise ValueError(f"HDF5Serializer.save: {name!r} has several shapes: {sorted(shapes)[:3]}.")
    array = np.asarray(column)
    if array.dtype.kind in "OU":
        raise ValueError(
            f"HDF5Serializer.save: {name!r} has an unsupported dtype (expected numbers or bytes, got {array.dtype})."
        )
    return array
