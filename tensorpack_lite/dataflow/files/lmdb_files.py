"""
LMDB files: shared environments for reading, and a writer for new files.

In:  a path.
Out: an environment, which is what the package lmdb calls an open file.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Callable
from weakref import WeakValueDictionary

from ...utils.errors import parsing
from ...utils.optional import load_optional
from ..base import Datapoint
from .lmdb_check import check_lmdb

if TYPE_CHECKING:
    import lmdb

KEYS_ENTRY = b"__keys__"  # key of LMDBSerializer's list of all keys

_MAP_BYTES = 1 << 30  # initial size of the map, which is doubled when it is full
_PENDING_BYTES = 1 << 26  # a transaction is written when it has so many bytes

# lmdb refuses to open a file twice in a process, or in a child of a process that has it open. So all readers of a file
# share one environment, which is closed with the last of them. The key is (device, inode), because a file can have
# several paths.
_OPEN: WeakValueDictionary[Any, Any] = WeakValueDictionary()
_OPENING = threading.Lock()


def open_lmdb(path: str) -> lmdb.Environment:
    """
    Open a database for reading. The file is not locked, so it must not be written to any more.

    Args:
        path: a directory with `data.mdb`, or the file itself.

    Returns:
        The environment. It is closed when the last reference to it is deleted.

    Raises:
        FileNotFoundError: the file does not exist.
        DamagedFileError: the file is damaged or is not an LMDB; `lmdb_check` describes the check.
        ImportError: lmdb is not installed.
    """
    open_environment = load_optional("lmdb", "LMDBData").open
    is_directory = os.path.isdir(path)
    file = os.path.join(path, "data.mdb") if is_directory else path
    if not os.path.isfile(file):
        raise FileNotFoundError(f"LMDBData: there is no {file}. Pass a directory with data.mdb, or the file itself.")
    status = os.stat(file)
    identity = (status.st_dev, status.st_ino)
    with _OPENING:
        environment = _OPEN.get(identity)
        if environment is None:
            with open(file, "rb") as content, parsing(file, "an LMDB"):
                check_lmdb(content, status.st_size)
                environment = open_environment(path, subdir=is_directory, readonly=True, lock=False, readahead=True)
            _OPEN[identity] = environment
        return environment


class ValueParser:
    """
    Decoder for the values of a database, whose errors name the file and the key. It can be pickled if `parse` can.

    Args:
        path: path of the database.
        what: the format of the values, e.g. "a datapoint".
        parse: takes a value and returns a datapoint.
    """

    def __init__(self, path: str, what: str, parse: Callable[[bytes], Datapoint]) -> None:
        self._path, self._what, self._parse = path, what, parse

    def __call__(self, key: bytes, value: bytes) -> Datapoint:
        """Return the datapoint of one entry."""
        with parsing(f"{self._path}: the value of {key!r}", self._what):
            return self._parse(value)


class LMDBWriter:
    """
    Writer for a new database. Entries are collected and written in one transaction; a full map is enlarged.

    Args:
        path: path of a new file, which no other process may use.
        write_frequency: maximum number of entries in a transaction.
    """

    def __init__(self, path: str, write_frequency: int) -> None:
        lmdb = load_optional("lmdb", "LMDBSerializer")
        # there is one writer and no reader, so locks are not needed; `close` waits for the disk
        self._environment = lmdb.open(path, subdir=False, map_size=_MAP_BYTES, lock=False, sync=False)
        self._full = lmdb.MapFullError
        self._write_frequency = write_frequency
        self._pending: list[tuple[bytes, bytes]] = []
        self._pending_bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry."""
        self._pending.append((key, value))
        self._pending_bytes += len(value)
        if len(self._pending) >= self._write_frequency or self._pending_bytes >= _PENDING_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the pending entries."""
        while True:
            try:
                with self._environment.begin(write=True) as transaction:
                    for key, value in self._pending:
                        transaction.put(key, value)
                break
            except self._full:  # lmdb has rolled back the transaction
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
        self._pending.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Wait for the disk and close the file. Pending entries are lost: call `flush` first."""
        self._environment.sync(True)
        self._environment.close()
