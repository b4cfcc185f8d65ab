"""
Data that lies in files of other libraries: LMDB, HDF5, SVMLight, and what Caffe put into LMDB.

In:  a path.
Out: datapoints, as the first DataFlow of a pipeline.

Each needs a package that is loaded when the first object is made: `pip install "tensorpack_lite[formats]"`.
"""

from __future__ import annotations

import os
from functools import reduce
from operator import mul
from typing import Any, Callable, Iterator, Sequence, Union

import numpy as np

from ..utils import logger
from ..utils.errors import DamagedFileError, parsing, type_error
from ..utils.optional import load_optional
from ..utils.serialize import loads
from ..utils.unpacking import check_unpacked_size
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, NotResetError, RNGDataFlow
from .files.caffe_datum import decode_datum
from .files.lmdb_files import KEYS_ENTRY, ValueParser, open_lmdb
from .mapping import MapData

__all__ = ["CaffeLMDB", "HDF5Data", "LMDBData", "LMDBDataDecoder", "SVMLightData"]


class HDF5Data(RNGDataFlow):
    """
    Rows of the data sets in an HDF5 file: datapoint k is row k of each.

    All is read into memory by the constructor, and the file is closed.

    Length: that of the data sets.
    Order: a new random one each pass, or that of the file.
    Process: stays in this one. A pickled copy takes no data along, and reads the file at its `reset_state`.

    Args:
        filename: of the HDF5 file.
        data_paths: of the data sets inside it, one for each component.
        shuffle: in a new random order each pass; needs `reset_state`.

    Raises:
        ImportError: h5py is not installed.
        OSError: the file cannot be read.
        KeyError: it has no such data set.
        ValueError: no data set is named.
        DamagedFileError: the file is damaged, unpacks to too much (see `utils.unpacking`), or its data sets have different
            lengths.

    Example:
        >>> HDF5Data("train.h5", ["image", "label"])

    tensorpack: same; there the file stays open, so that the DataFlow cannot be pickled.
    """

    def __init__(self, filename: str, data_paths: Sequence[str], shuffle: bool = True) -> None:
        if isinstance(data_paths, str):
            raise type_error(
                "HDF5Data: data_paths", "a list of paths", data_paths, f"Write [{data_paths!r}]."
            )
        self.filename = os.fspath(filename)
        self.data_paths = list(data_paths)
        self.shuffle = shuffle
        self._arrays: list[np.ndarray] | None = None
        self._size = len(self._load()[0])

    def _load(self) -> list[np.ndarray]:
        if self._arrays is None:
            self._arrays = _read_hdf5(self.filename, self.data_paths)
        return self._arrays

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Seed the order; read the file if this is a copy from another process."""
        super().reset_state()
        self._load()

    def __iter__(self) -> Iterator[Datapoint]:
        arrays = self._load()
        order = self.rng.permutation(self._size) if self.shuffle else np.arange(self._size)
        for row in order.tolist():
            yield [array[row] for array in arrays]


class LMDBData(RNGDataFlow):
    """
    The entries of an LMDB: datapoints are [key, value], both bytes.

    The entry `__keys__`, in which `LMDBSerializer` lists all keys, is no datapoint.

    Length: the number of entries, or of `keys` where that is a list.
    Order: a new random one each pass; with `shuffle=False` that of `keys`, or that of the database, by key.
    Process: the file is opened by `reset_state`, so a DataFlow may be built in one process and used in another.

    Args:
        lmdb_path: a directory with `data.mdb`, or the single file.
        shuffle: in a new random order each pass; needs all keys, see `keys`.
        keys: list of keys, as bytes or ASCII str; or a format string like `"{:0>8d}"`, which is applied to 0, 1, .. up to the
            number of entries. Default: the list in `__keys__`; where there is none and it is needed, the whole file is
            read for the keys once.

    Raises:
        ImportError: lmdb is not installed.
        FileNotFoundError: there is no database.
        DamagedFileError: the file is damaged; also while iterating.
        TypeError: `keys` is something else.
        KeyError: while iterating, a key of `keys` is not in the database.

    Attributes:
        keys: list of bytes, in the order of the last pass; None where the order is the database's.

    Example:
        >>> LMDBData("train.lmdb", shuffle=False)

    Note:
        `__keys__` may be pickled and then runs code when it is read, as `utils.serialize.loads` says. Read only files of
        your own, or give `keys`.

    tensorpack: same; there a format string fails on Python 3, a key that is not there gives None, and `keys` is not looked
        at without `shuffle`.
    """

    def __init__(
        self, lmdb_path: str, shuffle: bool = True, keys: Union[str, Sequence[Any], None] = None
    ) -> None:
        self._path = os.fspath(lmdb_path)
        self._shuffle = shuffle
        self._guard = DataFlowReentrantGuard()
        self._keys_are_given = keys is not None
        environment = open_lmdb(self._path)
        with environment.begin() as transaction:
            with parsing(self._path, "an LMDB"):
                self._size = environment.stat()["entries"] - (transaction.get(KEYS_ENTRY) is not None)
            self.keys = self._find_keys(transaction, keys)
        if self.keys is not None:
            self._size = len(self.keys)
        self._environment: Any = None

    def _find_keys(self, transaction: Any, keys: Any) -> list[bytes] | None:
        if isinstance(keys, str):
            return [keys.format(k).encode("ascii") for k in range(self._size)]
        if isinstance(keys, (list, tuple)):
            return [key.encode("ascii") if isinstance(key, str) else bytes(key) for key in keys]
        if keys is not None:
            raise type_error("LMDBData: keys", "a list of keys or a format string", keys)
        if not self._shuffle:
            return None
        with parsing(self._path, "an LMDB"):
            listed = transaction.get(KEYS_ENTRY)
            if listed is not None:
                return _as_keys(loads(listed))
            logger.warning(
                f"LMDBData: {self._path} has no list of its keys; reading the whole file for them."
            )
            cursor = transaction.cursor()
            return [key for key in cursor.iternext(keys=True, values=False) if key != KEYS_ENTRY]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_environment": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Open the file in this process, and seed the order."""
        super().reset_state()
        self._environment = open_lmdb(self._path)

    def __iter__(self) -> Iterator[list[bytes]]:
        with self._guard:
            if self._environment is None:
                raise NotResetError(
                    "LMDBData: reset_state() was not called. Call df.reset_state() once, in the process that iterates."
                )
            with self._environment.begin() as transaction:
                if self.keys is None:
                    with parsing(self._path, "an LMDB"):
                        yield from ([k, v] for k, v in transaction.cursor() if k != KEYS_ENTRY)
                else:
                    yield from self._by_key(transaction, self.keys)

    def _by_key(self, transaction: Any, keys: list[bytes]) -> Iterator[list[bytes]]:
        if self._shuffle:
            self.rng.shuffle(keys)
        for key in keys:
            with parsing(self._path, "an LMDB"):
                value = transaction.get(key)
            if value is None and self._keys_are_given:
                raise KeyError(
                    f"LMDBData: {self._path} has no key {key!r}. Were the keys listed for this file?"
                )
            if value is None:
                raise DamagedFileError(f"{self._path} has no key {key!r}, which its own list of keys has.")
            yield [key, value]


class LMDBDataDecoder(MapData):
    """
    The entries of an LMDB, made into datapoints by a function.

    Length: that of `lmdb_data`; wrong when the function drops datapoints.
    Order: that of `lmdb_data`.
    Process: stays in this one. It can be pickled if the function can.

    Args:
        lmdb_data: an `LMDBData`, or any DataFlow of [key, value].
        decoder: takes key and value and returns a datapoint, or None to drop the entry.

    Raises:
        TypeError: `decoder` cannot be called, or `lmdb_data` is not a DataFlow.

    Example:
        >>> LMDBDataDecoder(LMDBData("images.lmdb"), lambda key, value: [cv2.imdecode(np.frombuffer(value, "uint8"), 1)])

    tensorpack: same.
    """

    def __init__(self, lmdb_data: DataFlow, decoder: Callable[[bytes, bytes], Any]) -> None:
        if not callable(decoder):
            raise type_error("LMDBDataDecoder", "a function of key and value", decoder)
        super().__init__(lmdb_data, _Decoder(decoder))


class SVMLightData(RNGDataFlow):
    """
    The lines of a file in SVMLight's format: datapoints are [float64 (features,), label].

    Length: the number of lines.
    Order: a new random one each pass, or that of the file.
    Process: stays in this one.

    Args:
        filename: of the file; ".gz" and ".bz2" are unpacked.
        shuffle: in a new random order each pass; needs `reset_state`.

    Raises:
        ImportError: scikit-learn is not installed.
        OSError: the file cannot be read.
        DamagedFileError: the file is damaged, or is not in this format.

    Note:
        The features are stored densely: lines x features x 8 bytes of memory.

    tensorpack: same.
    """

    def __init__(self, filename: str, shuffle: bool = True) -> None:
        datasets = load_optional("sklearn.datasets", "SVMLightData")
        with open(filename, "rb"), parsing(filename, "an SVMLight file"):
            features, self.y = datasets.load_svmlight_file(os.fspath(filename))
            self.X = features.toarray()
        self.shuffle = shuffle

    def __len__(self) -> int:
        return len(self.X)

    def __iter__(self) -> Iterator[Datapoint]:
        order = self.rng.permutation(len(self)) if self.shuffle else np.arange(len(self))
        for row in order.tolist():
            yield [self.X[row], self.y[row]]


def CaffeLMDB(  # noqa: N802 (upstream's name)
    lmdb_path: str, shuffle: bool = True, keys: Union[str, Sequence[Any], None] = None
) -> LMDBDataDecoder:
    """
    Function: returns a DataFlow of the images that Caffe's `convert_imageset` stored, without Caffe.

    Args:
        lmdb_path: as `LMDBData`.
        shuffle: as `LMDBData`.
        keys: as `LMDBData`.

    Returns:
        A DataFlow of [image, label]: uint8 [H, W, C], BGR for colours, and an int. Compressed images need OpenCV.

    Raises:
        DamagedFileError: the file is damaged; while iterating, a value is not an image of Caffe.

    tensorpack: same; there it needs `caffe.proto` and its compiler, and images that cannot be read are dropped.
    """
    parser = ValueParser(os.fspath(lmdb_path), "an image of Caffe", decode_datum)
    return LMDBDataDecoder(LMDBData(lmdb_path, shuffle=shuffle, keys=keys), parser)


class _Decoder:
    """Give the two components of a datapoint to a function of two arguments; can be pickled if that can."""

    def __init__(self, decoder: Callable[[bytes, bytes], Any]) -> None:
        self._decoder = decoder

    def __call__(self, datapoint: Any) -> Any:
        return self._decoder(datapoint[0], datapoint[1])


def _as_keys(listed: Any) -> list[bytes]:
    if not (isinstance(listed, (list, tuple)) and all(isinstance(key, bytes) for key in listed)):
        raise ValueError(f"{KEYS_ENTRY!r} is not a list of bytes")
    return list(listed)


def _read_hdf5(filename: str, data_paths: list[str]) -> list[np.ndarray]:
    h5py = load_optional("h5py", "HDF5Data")
    if not data_paths:
        raise ValueError("HDF5Data: data_paths is empty. Name the data sets, one for each component.")
    logger.info(f"Loading {filename} to memory...")
    with open(filename, "rb"):  # h5py's error for a missing file is the one for a damaged file
        pass
    with parsing(filename, "an HDF5 file"), h5py.File(filename, "r") as file:
        names = sorted(file)
        absent = [path for path in data_paths if path not in file]
        if not absent:
            check_unpacked_size(filename, sum(_data_bytes(file[path]) for path in data_paths))
            arrays = [file[path][()] for path in data_paths]
    if absent:
        raise KeyError(f"HDF5Data: {filename} has no {absent[0]!r}; it has {', '.join(names)}.")
    lengths = [len(array) if np.ndim(array) else 0 for array in arrays]
    if len(set(lengths)) > 1:
        raise DamagedFileError(
            f"{filename}: {data_paths} have different lengths: {lengths}. A row of each is a datapoint."
        )
    return arrays


def _data_bytes(dataset: Any) -> int:
    return reduce(mul, dataset.shape, dataset.dtype.itemsize)  # not by NumPy, whose integers overflow
