"""
DataFlows that read files of other libraries: LMDB, HDF5, SVMLight, and LMDB files written by Caffe.

In:  a path.
Out: the first DataFlow of a pipeline.

Each format needs a package, which its constructor imports: `pip install "tensorpack_lite[formats]"`.
"""

from __future__ import annotations

import os
from functools import partial, reduce
from itertools import islice
from operator import mul
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence, Union

import numpy as np

from ..utils import logger
from ..utils.checks import check_callable
from ..utils.errors import DamagedFileError, parsing, type_error
from ..utils.optional import load_optional
from ..utils.serialize import loads
from ..utils.unpacking import check_unpacked_size
from .base import DataFlow, DataFlowReentrantGuard, Datapoint, IndexedData, RNGDataFlow, not_reset_error
from .exact.stage_position import State
from .files.caffe_datum import decode_datum
from .files.lmdb_files import KEYS_ENTRY, ValueParser, open_lmdb
from .mapping import MapData

if TYPE_CHECKING:
    import lmdb

Keys = Union[str, Sequence[Union[str, bytes]], None]


class HDF5Data(IndexedData):
    """
    Rows of the datasets in an HDF5 file: datapoint k consists of row k of each dataset.

    The constructor reads all datasets into memory and closes the file.

    Length: that of the datasets.
    Order: a new random order in each pass, or that of the file.
    Process: runs in the current process. A pickle contains no data; the copy reads the file in its `reset_state`.

    Args:
        filename: path of the HDF5 file.
        data_paths: paths of the datasets in the file, one for each component.
        shuffle: whether to use a new random order in each pass; requires `reset_state`.

    Raises:
        ImportError: h5py is not installed.
        OSError: the file cannot be read.
        KeyError: the file has no such dataset.
        ValueError: `data_paths` is empty.
        DamagedFileError: the file is damaged, is too large when unpacked (see `utils.unpacking`), or its datasets have
            different lengths.

    Example:
        >>> HDF5Data("train.h5", ["image", "label"])
    """

    def __init__(self, filename: str, data_paths: Sequence[str], shuffle: bool = True) -> None:
        if isinstance(data_paths, str):
            raise type_error("HDF5Data: data_paths", "a list of paths", data_paths, f"Write [{data_paths!r}].")
        super().__init__(shuffle)
        self.filename = os.fspath(filename)
        self.data_paths = list(data_paths)
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
        """Seed the order, and read the file if this is an unpickled copy."""
        super().reset_state()
        self._load()

    def _datapoint(self, index: int) -> Datapoint:
        return [array[index] for array in self._load()]


class LMDBData(RNGDataFlow):
    """
    The entries of an LMDB database. Datapoints are [key, value], both bytes.

    The entry `__keys__`, in which `LMDBSerializer` lists all keys, is skipped.

    Length: the number of entries, or the length of the list `keys`.
    Order: a new random order in each pass; with `shuffle=False` that of `keys`, by default that of the database.
    Process: `reset_state` opens the file, so the DataFlow can be built in one process and iterated in another.

    Args:
        lmdb_path: path of a directory with `data.mdb`, or of a single file.
        shuffle: whether to use a new random order in each pass. This requires all keys, see `keys`.
        keys: list of keys, as bytes or ASCII str; or a format string such as `"{:0>8d}"`, which is applied to
            0, 1, ... up to the number of entries. Default: the list in `__keys__`. If `shuffle` requires the
            keys and this entry is missing, the constructor reads them from the whole file.

    Raises:
        ImportError: lmdb is not installed.
        FileNotFoundError: there is no database.
        DamagedFileError: the file is damaged; also raised while iterating.
        TypeError: `keys` is not a list or a str.
        KeyError: (while iterating) a key in `keys` is not in the database.

    Attributes:
        keys: list of bytes, in the order of the last pass; None if the order is that of the database.

    Example:
        >>> LMDBData("train.lmdb", shuffle=False)

    Note:
        `__keys__` may be pickled, and unpickling can run any code; see `utils.serialize.loads`. Read only
        files that you trust, or pass `keys`.

    Difference from tensorpack: tensorpack ignores `keys` if `shuffle` is False, and yields None for a missing key. This
    library always uses `keys`, and raises KeyError.
    """

    def __init__(self, lmdb_path: str, shuffle: bool = True, keys: Keys = None) -> None:
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
        self._unshuffled = self.keys or []
        # of `keys`, as positions in `_unshuffled`; replaced, not changed, because positions refer to it
        self._order = np.arange(len(self._unshuffled), dtype=np.int64)
        self._environment: Any = None

    def _find_keys(self, transaction: lmdb.Transaction, keys: Keys) -> list[bytes] | None:
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
            logger.warning(f"LMDBData: {self._path} has no list of its keys; reading the keys from the whole file.")
            cursor: Any = transaction.cursor()
            return [key for key in cursor.iternext(keys=True, values=False) if key != KEYS_ENTRY]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_environment": None}

    def __len__(self) -> int:
        return self._size

    def reset_state(self) -> None:
        """Open the file in this process, and seed the order."""
        super().reset_state()
        self._environment = open_lmdb(self._path)

    def _own_state(self) -> State:
        return {"order": self._order}

    def _restore_own_state(self, state: State) -> None:
        self._set_order(state["order"])

    def _set_order(self, order: np.ndarray) -> None:
        self._order = order
        self.keys = self.keys and [self._unshuffled[index] for index in order.tolist()]

    def __iter__(self) -> Iterator[list[bytes]]:
        return self.iter_from(0)

    def iter_from(self, num_done: int) -> Iterator[list[bytes]]:
        """Yield the entries in the order of this pass, without the first ones."""
        with self._guard:
            if self._environment is None:
                raise not_reset_error("LMDBData")
            with self._environment.begin() as transaction:
                if self.keys is None:
                    with parsing(self._path, "an LMDB"):
                        entries = ([k, v] for k, v in transaction.cursor() if k != KEYS_ENTRY)
                        yield from islice(entries, num_done, None)
                else:
                    if self._shuffle and num_done == 0:
                        order = self._order.copy()
                        self.rng.shuffle(order)
                        self._set_order(order)
                    yield from self._by_key(transaction, self.keys[num_done:])

    def _by_key(self, transaction: lmdb.Transaction, keys: list[bytes]) -> Iterator[list[bytes]]:
        for key in keys:
            with parsing(self._path, "an LMDB"):
                value: Any = transaction.get(key)
            if value is None and self._keys_are_given:
                raise KeyError(f"LMDBData: {self._path} has no key {key!r}. Check that `keys` belongs to this file.")
            if value is None:
                raise DamagedFileError(f"{self._path} has no key {key!r}, although its list of keys contains it.")
            yield [key, value]


class LMDBDataDecoder(MapData):
    """
    DataFlow that decodes the entries of an LMDB database with a function.

    Length: that of `lmdb_data`; too large if the function drops datapoints.
    Order: that of `lmdb_data`.
    Process: runs in the current process. It can be pickled if the function can.

    Args:
        lmdb_data: an `LMDBData`, or any DataFlow of [key, value].
        decoder: takes key and value and returns a datapoint, or None to drop the entry.

    Raises:
        TypeError: `decoder` is not callable, or `lmdb_data` is not a DataFlow.

    Example:
        >>> LMDBDataDecoder(LMDBData("images.lmdb"), lambda key, value: [cv2.imdecode(np.frombuffer(value, "uint8"), 1)])
    """

    def __init__(self, lmdb_data: DataFlow, decoder: Callable[[bytes, bytes], Datapoint]) -> None:
        check_callable("LMDBDataDecoder: decoder", decoder, "a function of key and value")
        super().__init__(lmdb_data, partial(_decode, decoder))


class SVMLightData(IndexedData):
    """
    The lines of a file in SVMLight format. Datapoints are [float64 (features,), label].

    Length: the number of lines.
    Order: a new random order in each pass, or that of the file.
    Process: runs in the current process.

    Args:
        filename: path of the file; ".gz" and ".bz2" files are decompressed.
        shuffle: whether to use a new random order in each pass; requires `reset_state`.

    Raises:
        ImportError: scikit-learn is not installed.
        OSError: the file cannot be read.
        DamagedFileError: the file is damaged, or is not in this format.

    Note:
        The features are stored as a dense array of lines x features x 8 bytes.
    """

    def __init__(self, filename: str, shuffle: bool = True) -> None:
        super().__init__(shuffle)
        datasets = load_optional("sklearn.datasets", "SVMLightData")
        with open(filename, "rb"), parsing(filename, "an SVMLight file"):
            features, self.y = datasets.load_svmlight_file(os.fspath(filename))
            self.X = features.toarray()

    def __len__(self) -> int:
        return len(self.X)

    def _datapoint(self, index: int) -> Datapoint:
        return [self.X[index], self.y[index]]


def CaffeLMDB(  # noqa: N802 (upstream's name)
    lmdb_path: str, shuffle: bool = True, keys: Keys = None
) -> LMDBDataDecoder:
    """
    Return a DataFlow of the images in a database written by Caffe's `convert_imageset`. Caffe is not needed.

    Args:
        lmdb_path: as in `LMDBData`.
        shuffle: as in `LMDBData`.
        keys: as in `LMDBData`.

    Returns:
        A DataFlow of [image, label]: uint8 [H, W, C], BGR for color images, and an int. Compressed images
        require OpenCV.

    Raises:
        DamagedFileError: the file is damaged; (while iterating) a value is not a Caffe image.

    Difference from tensorpack: tensorpack drops images that cannot be decoded. This library raises DamagedFileError.
    """
    parser = ValueParser(os.fspath(lmdb_path), "an image of Caffe", decode_datum)
    return LMDBDataDecoder(LMDBData(lmdb_path, shuffle=shuffle, keys=keys), parser)


def _decode(decoder: Callable[[bytes, bytes], Datapoint], entry: Sequence[bytes]) -> Datapoint:
    return decoder(entry[0], entry[1])


def _as_keys(listed: object) -> list[bytes]:
    if not (isinstance(listed, (list, tuple)) and all(isinstance(key, bytes) for key in listed)):
        raise ValueError(f"{KEYS_ENTRY!r} is not a list of bytes")
    return list(listed)


def _read_hdf5(filename: str, data_paths: list[str]) -> list[np.ndarray]:
    h5py = load_optional("h5py", "HDF5Data")
    if not data_paths:
        raise ValueError("HDF5Data: data_paths is empty. Pass the path of a dataset for each component.")
    logger.info(f"HDF5Data: loading {filename} into memory.")
    with open(filename, "rb"):  # h5py raises the same error for missing and for damaged files
        pass
    with parsing(filename, "an HDF5 file"), h5py.File(filename, "r") as file:
        names = sorted(file)
        absent = [path for path in data_paths if path not in file]
        if not absent:
            datasets = [file[path] for path in data_paths]
            # NumPy's product could overflow
            num_bytes = sum(reduce(mul, dataset.shape, dataset.dtype.itemsize) for dataset in datasets)
            check_unpacked_size(filename, num_bytes)
            arrays = [dataset[()] for dataset in datasets]
    if absent:
        raise KeyError(f"HDF5Data: {filename} has no dataset {absent[0]!r}. It contains {', '.join(names)}.")
    lengths = [len(array) if np.ndim(array) else 0 for array in arrays]
    if len(set(lengths)) > 1:
        raise DamagedFileError(
            f"{filename}: the datasets {data_paths} have different lengths: {lengths}. A datapoint needs a row of each."
        )
    return arrays
