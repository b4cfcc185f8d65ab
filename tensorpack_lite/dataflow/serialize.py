"""
A DataFlow as a file: written once, read often.

In:  a DataFlow, run through once.
Out: a file; and a DataFlow that reads it.

Each class holds two functions, `save` and `load`. A file is written aside, and renamed when it is complete: under its name
there is the whole of it or nothing. A file that is there already is never overwritten.

LMDB is the best for random access to much data, TFRecord for reading in order, HDF5 for exchange with other programs, and
the NumPy file for what is small. LMDB and TFRecord hold any datapoint, by `utils.serialize`: with pickle, the default, read
only files of your own.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any, Iterator, Sequence

import numpy as np

from ..utils.errors import DamagedFileError, parsing
from ..utils.npz import open_npz, read_npy_header
from ..utils.optional import load_optional
from ..utils.plain_pickle import check_plain, load_plain
from ..utils.serialize import dumps, loads
from .base import DataFlow, Datapoint
from .files.lmdb_files import KEYS_ENTRY, LMDBWriter, ValueParser
from .files.saving import known_length, one_pass, require_saveable, written_aside
from .files.tfrecord import read_records, write_record
from .format import HDF5Data, LMDBData, LMDBDataDecoder
from .raw import DataFromList
from .repeat import FixedSizeData

__all__ = ["HDF5Serializer", "LMDBSerializer", "NumpySerializer", "TFRecordSerializer"]

_KEY_DIGITS = 8


class LMDBSerializer:
    """
    A DataFlow in an LMDB: keys are running numbers ("00000000" ..), values are what `utils.serialize.dumps` makes of the
    datapoints, and `__keys__` lists the keys. The same format as tensorpack's, both ways.

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
            path: of the file; or of a directory, into which `data.mdb` is written.
            write_frequency: datapoints that are written at once; fewer when they have more than 64 MB together.

        Raises:
            TypeError: `df` is not a DataFlow.
            ValueError: `write_frequency` is below 1.
            FileExistsError: the file is there already.
            ImportError: lmdb is not installed.

        tensorpack: same; there a failed run leaves a broken file, which the next run refuses to overwrite, and a full map
            loses datapoints outside of Linux.
        """
        require_saveable("LMDBSerializer", df)
        if write_frequency < 1:
            raise ValueError(f"LMDBSerializer: write_frequency is {write_frequency}, wanted 1 or more.")
        target = os.path.join(path, "data.mdb") if os.path.isdir(path) else os.fspath(path)
        with written_aside("LMDBSerializer", target) as temporary:
            _write_lmdb(df, temporary, write_frequency)

    @staticmethod
    def load(path: str, shuffle: bool = True) -> LMDBDataDecoder:
        """
        Read what `save` wrote, here or in tensorpack; values may be pickle or msgpack.

        Args:
            path: of the file or the directory.
            shuffle: in a new random order each pass; otherwise in that of the file.

        Returns:
            A DataFlow; it can be pickled, and opens the file at `reset_state`.

        Raises:
            FileNotFoundError: there is no database.
            DamagedFileError: the file is damaged; while iterating, a value is.
            ImportError: lmdb is not installed.
        """
        return LMDBDataDecoder(LMDBData(path, shuffle=shuffle), ValueParser(path, "a datapoint", loads))


class TFRecordSerializer:
    """
    A DataFlow in a TFRecord file, each datapoint a record by `utils.serialize.dumps`. TensorFlow is not needed.

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
            path: of the file, on a disk.

        Raises:
            TypeError: `df` is not a DataFlow.
            FileExistsError: the file is there already.

        tensorpack: same; there a file is overwritten.
        """
        require_saveable("TFRecordSerializer", df)
        with written_aside("TFRecordSerializer", path) as temporary, open(temporary, "wb") as file:
            for datapoint in one_pass(df):
                write_record(file, dumps(datapoint))

    @staticmethod
    def load(path: str, size: int | None = None) -> DataFlow:
        """
        Read what `save` wrote, here or in tensorpack, in its order.

        Args:
            path: of the file, not compressed.
            size: the number of datapoints, which the file does not tell; then `len` works, and a pass has that many.

        Returns:
            A DataFlow; it can be pickled, and opens the file anew for each pass.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedFileError: while iterating, the file is damaged or cut off; the message has the number of the record.

        tensorpack: same; there the second pass is empty.
        """
        if not os.path.isfile(path):
            raise FileNotFoundError(f"TFRecordSerializer: there is no file {path}.")
        records = _TFRecordData(os.fspath(path))
        return records if size is None else FixedSizeData(records, size)


class NumpySerializer:
    """
    A DataFlow in a NumPy file (".npz", compressed), all of which is in memory when it is written and when it is read.

    The file has one array of Python objects, `buffer`, as tensorpack's; NumPy stores such an array by pickle. It is read
    by an unpickler that knows plain data only (numbers, texts, lists, tuples, dicts, arrays) and runs nothing.

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
            path: of the file; ".npz" is appended when it does not end so, as NumPy does.

        Raises:
            TypeError: `df` is not a DataFlow, or a datapoint holds something else than plain data.
            FileExistsError: the file is there already.

        tensorpack: same; there it fails with NumPy >= 1.24, writes any object, and overwrites a file.
        """
        require_saveable("NumpySerializer", df)
        with written_aside("NumpySerializer", _with_npz(path)) as temporary:
            datapoints = []
            for number, datapoint in enumerate(one_pass(df)):
                try:
                    check_plain(datapoint)
                except TypeError as error:
                    advice = "Use LMDBSerializer for other objects."
                    raise TypeError(f"NumpySerializer: datapoint {number}: {error}. {advice}") from error
                datapoints.append(datapoint)
            # made empty, for np.array() would look into them
            buffer = np.empty(len(datapoints), dtype=object)
            for number, datapoint in enumerate(datapoints):
                buffer[number] = datapoint
            with open(temporary, "wb") as file:
                np.savez_compressed(file, buffer=buffer)

    @staticmethod
    def load(path: str, shuffle: bool = True) -> DataFromList:
        """
        Read what `save` wrote, here or in tensorpack.

        Args:
            path: of the file, with or without ".npz".
            shuffle: in a new random order each pass.

        Returns:
            A DataFlow of lists, which holds all datapoints.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedFileError: the file is damaged, unpacks to too much, or holds anything other than plain data.

        tensorpack: same; there any code in the file is run.
        """
        path = os.fspath(path) if os.path.isfile(path) else _with_npz(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"NumpySerializer: there is no file {path}.")
        return DataFromList(_read_npz(path), shuffle=shuffle)


class HDF5Serializer:
    """
    A DataFlow in an HDF5 file: a data set for each component, whose rows are the datapoints. All of it is in memory when
    it is written and when it is read. Components are numbers, or arrays of one shape.

    Example:
        >>> HDF5Serializer.save(df, "train.h5", ["image", "label"])
        >>> df = HDF5Serializer.load("train.h5", ["image", "label"])
    """

    @staticmethod
    def save(df: DataFlow, path: str, data_paths: Sequence[str]) -> None:
        """
        Write one pass of a DataFlow to a file.

        Args:
            df: the DataFlow, of lists; it is reset.
            path: of the file.
            data_paths: of the data sets inside it, one for each component.

        Raises:
            TypeError: `df` is not a DataFlow.
            ValueError: a datapoint has another number of components, or a component not one shape, or no numbers.
            FileExistsError: the file is there already.
            ImportError: h5py is not installed.

        tensorpack: same; there a file is overwritten.
        """
        require_saveable("HDF5Serializer", df)
        h5py = load_optional("h5py", "HDF5Serializer")
        with written_aside("HDF5Serializer", path) as temporary:
            columns: list[list[Any]] = [[] for _ in data_paths]
            for number, datapoint in enumerate(one_pass(df)):
                if not isinstance(datapoint, (list, tuple)) or len(datapoint) != len(columns):
                    got = f"{type(datapoint).__name__} of {len(datapoint)}"
                    raise ValueError(
                        f"HDF5Serializer: datapoint {number} is a {got}, wanted a list of {len(columns)}, "
                        f"one for each of {list(data_paths)}."
                    )
                for column, component in zip(columns, datapoint):
                    column.append(component)
            arrays = [_stacked(name, column) for name, column in zip(data_paths, columns)]
            with h5py.File(temporary, "w") as file:
                for name, array in zip(data_paths, arrays):
                    file.create_dataset(
                        name, data=array, fletcher32=array.size > 0
                    )  # a checksum of each chunk

    @staticmethod
    def load(path: str, data_paths: Sequence[str], shuffle: bool = True) -> HDF5Data:
        """
        Read what `save` wrote, or other data sets of equal length.

        Args:
            path: of the file.
            data_paths: of the data sets, one for each component.
            shuffle: in a new random order each pass.

        tensorpack: same.
        """
        return HDF5Data(path, data_paths, shuffle=shuffle)


class _TFRecordData(DataFlow):
    """
    The datapoints of a TFRecord file.

    Length: none; the file does not tell.
    Order: that of the file.
    Process: opens the file for each pass; can be pickled.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Datapoint]:
        for number, record in enumerate(read_records(self._path)):
            with parsing(f"{self._path}: record {number}", "a datapoint"):
                datapoint = loads(record)
            yield datapoint


def _write_lmdb(df: DataFlow, path: str, write_frequency: int) -> None:
    keys = []
    digits = max(_KEY_DIGITS, len(str(known_length(df) - 1)))  # so that keys sort as they count
    with closing(LMDBWriter(path, write_frequency)) as writer:
        for number, datapoint in enumerate(one_pass(df)):
            keys.append(str(number).zfill(digits).encode("ascii"))
            writer.put(keys[-1], dumps(datapoint))
        writer.put(KEYS_ENTRY, dumps(keys))
        writer.flush()


def _with_npz(path: str) -> str:
    name = os.fspath(path)
    return name if name.endswith(".npz") else name + ".npz"


def _read_npz(path: str) -> list[Any]:
    """Read the array `buffer`: its head by NumPy, its objects by the unpickler of plain data."""
    with open_npz(path) as archive, archive.open("buffer.npy") as file:
        buffer = load_plain(file) if read_npy_header(file)[2].hasobject else None
    if not (isinstance(buffer, np.ndarray) and buffer.ndim):
        raise DamagedFileError(f"NumpySerializer: {path} has no array of datapoints.")
    return [_as_datapoint(element) for element in buffer]


def _as_datapoint(element: Any) -> Any:
    """Components of one shape were joined to one array by tensorpack; they are taken apart again."""
    if not (isinstance(element, np.ndarray) and element.ndim):
        return element
    return [np.array(row.tolist()) if isinstance(row, np.ndarray) else row for row in element]


def _stacked(name: str, column: list[Any]) -> np.ndarray:
    shapes = {np.shape(component) for component in column}
    if len(shapes) > 1:
        raise ValueError(f"HDF5Serializer: {name!r} has components of several shapes: {sorted(shapes)[:3]}.")
    array = np.asarray(column)
    if array.dtype.kind in "OU":
        raise ValueError(
            f"HDF5Serializer: {name!r} has components of dtype {array.dtype}, wanted numbers or bytes."
        )
    return array
