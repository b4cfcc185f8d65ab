"""
Check of the size of an LMDB file before liblmdb maps it.

liblmdb trusts the numbers in a file. If the file is shorter than they say, reading what is missing ends the process by
SIGBUS. An intact file may also be shorter, because liblmdb does not write free pages at its end. So a short file is first
read in another process.

The format is defined by the structures MDB_page, MDB_meta and MDB_db in `libraries/liblmdb/mdb.c` of LMDB 0.9, on a 64-bit
little-endian machine. https://git.openldap.org/openldap/openldap/-/blob/mdb.master/libraries/liblmdb/mdb.c
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from typing import BinaryIO, NamedTuple

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_META = 0x08  # flag of a page
_PAGE = struct.Struct("<QHHHH")  # number, padding, flags, lower, upper
_META_HEAD = struct.Struct("<IIQQ")  # magic, version, address, map size
_DB = struct.Struct("<IHHQQQQQ")  # page size, flags, depth; branch, leaf, overflow pages; entries, root
_META_TAIL = struct.Struct("<QQ")  # last page, transaction

_READ_ALL = """
import sys, lmdb
with lmdb.open(sys.argv[1], subdir=False, readonly=True, lock=False) as file, file.begin(buffers=True) as entries:
    for key, value in entries.cursor():
        value[-1:]
"""


class _Meta(NamedTuple):
    page_size: int
    pages: int  # of the complete file
    transaction: int


def check_lmdb(file: BinaryIO, size: int) -> None:
    """
    Raise an error if liblmdb would crash because a file is too short.

    Args:
        file: a file that is open for reading.
        size: size of the file in bytes.

    Raises:
        ValueError: the file is not an LMDB, or its entries cannot all be read because it is too short.
    """
    first = _read_meta(file, 0)
    second = _read_meta(file, first.page_size)
    if second.page_size != first.page_size:
        raise ValueError("its two meta pages have different page sizes")
    expected = max(first, second, key=lambda meta: meta.transaction).pages
    pages = size // first.page_size
    if pages < expected and not _is_readable(file.name):
        raise ValueError(
            f"it has {pages} pages, and not all entries can be read (expected {expected}). Was the file copied completely?"
        )


def _is_readable(path: str) -> bool:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _READ_ALL, path]
    return subprocess.run(command, env=environment, stderr=subprocess.DEVNULL).returncode == 0


def _read_meta(file: BinaryIO, place: int) -> _Meta:
    head = _read(file, place, _PAGE.size + _META_HEAD.size)
    flags = _PAGE.unpack_from(head)[2]
    magic, version, _, _ = _META_HEAD.unpack_from(head, _PAGE.size)
    if magic != _MAGIC or not flags & _META:
        raise ValueError(f"byte {place} is not the start of a meta page")
    if version != _VERSION:
        raise ValueError(f"its format has version {version} (expected {_VERSION})")
    fields = _read(file, place + len(head), 2 * _DB.size + _META_TAIL.size)
    page_size = _DB.unpack_from(fields)[0]
    last_page, transaction = _META_TAIL.unpack_from(fields, 2 * _DB.size)
    if not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        raise ValueError(f"its page size is {page_size} (expected a power of 2 from 512 to 65536)")
    return _Meta(page_size, last_page + 1, transaction)


def _read(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    content = file.read(size)
    if len(content) < size:
        raise ValueError(f"it ends before byte {place + size}")
    return content
