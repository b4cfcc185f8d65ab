"""
Opening LMDB files, for reading by many and for writing once.

In:  a path.
Out: the environment, as the package lmdb calls an open file.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable
from weakref import WeakValueDictionary

from ...utils.errors import parsing
from ...utils.optional import load_optional
from .lmdb_check import check_lmdb

__all__ = ["KEYS_ENTRY", "LMDBWriter", "ValueParser", "open_lmdb"]

KEYS_ENTRY = b"__keys__"  # where LMDBSerializer lists all keys

_MAP_BYTES = 1 << 30  # at first; doubled when it is full
_PENDING_BYTES = 1 << 26  # written at once, at most

# lmdb refuses to open a file twice in a process, also in the child of one that has it open. So those who read the same file
# share it; it is closed when the last of them is gone. Keyed by what the file is, not by what it is called.
_OPEN: WeakValueDictionary[Any, Any] = WeakValueDictionary()
_OPENING = threading.Lock()


def open_lmdb(path: str) -> Any:
    """
    Open a database for reading; without locks, because nobody writes to it any more.

    Args:
        path: a directory with `data.mdb`, or the single file.

    Returns:
        The environment. It is closed when the last reference is gone.

    Raises:
        FileNotFoundError: there is no database.
        DamagedFileError: the file is damaged, or is not an LMDB; see `lmdb_check` for what is found.
        ImportError: lmdb is not installed.
    """
    open_environment = load_optional("lmdb", "LMDBData").open
    is_directory = os.path.isdir(path)
    file = os.path.join(path, "data.mdb") if is_directory else path
    if not os.path.isfile(file):
        raise FileNotFoundError(
            f"LMDBData: there is no {file}. Pass a directory with data.mdb, or the file itself."
        )
    status = os.stat(file)
    identity = (status.st_dev, status.st_ino)
    with _OPENING:
        environment = _OPEN.get(identity)
        if environment is None:
            with open(file, "rb") as content, parsing(file, "an LMDB"):
                check_lmdb(content, status.st_size)
                environment = open_environment(
                    path, subdir=is_directory, readonly=True, lock=False, readahead=True
                )
            _OPEN[identity] = environment
        return environment


class ValueParser:
    """
    Decoder of the values of a database, whose errors name the file and the key. It can be pickled if `parse` can.

    Args:
        path: of the database.
        what: the format of the values, e.g. "a datapoint".
        parse: takes a value and returns a datapoint.
    """

    def __init__(self, path: str, what: str, parse: Callable[[bytes], Any]) -> None:
        self._path, self._what, self._parse = path, what, parse

    def __call__(self, key: bytes, value: bytes) -> Any:
        """Return the datapoint of one entry."""
        with parsing(f"{self._path}: the value of {key!r}", self._what):
            return self._parse(value)


class LMDBWriter:
    """
    Writes to a new database; what waits is written in one transaction, and again in a larger map if that is full.

    Args:
        path: of the file, which nobody else may know yet.
        write_frequency: entries that are written at once, at most.
    """

    def __init__(self, path: str, write_frequency: int) -> None:
        lmdb = load_optional("lmdb", "LMDBSerializer")
        # one process, one writer, and a name that nobody knows: no locks, and no waiting for the disk until the end
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
        """Write what waits."""
        while True:
            try:
                with self._environment.begin(write=True) as transaction:
                    for key, value in self._pending:
                        transaction.put(key, value)
                break
            except self._full:  # the transaction is undone
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
        self._pending.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Wait for the disk, and close the file. What waits and was not flushed is lost."""
        self._environment.sync(True)
        self._environment.close()
