"""
Check of an LMDB file before liblmdb maps it.

liblmdb trusts the numbers in a file. If the file is shorter than they say, reading ends the process by SIGBUS; if they
point outside of a page, by SIGSEGV. Therefore the check compares the size of the file with its meta pages, and follows
the tree from its root. A tree of more than 16384 pages would take long, so it is followed only if the file is shorter
than its meta page says. (Values of more than 2 KB are not in the pages of the tree, so an LMDB of two million
images has fewer pages.) An intact file may also be shorter, because liblmdb does not write free pages at its
end.

The format is defined by the structures MDB_page, MDB_meta, MDB_db and MDB_node in `libraries/liblmdb/mdb.c`
of LMDB 0.9, on a 64-bit little-endian machine.
https://git.openldap.org/openldap/openldap/-/blob/mdb.master/libraries/liblmdb/mdb.c
"""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple

import numpy as np

__all__ = ["check_lmdb"]

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOW, _META, _LEAF2, _SUBPAGE = 0x01, 0x02, 0x04, 0x08, 0x20, 0x40  # flags of a page
_BIG_DATA, _DUP_DATA = 0x01, 0x04  # flags of a node
_DUP_SORT = 0x04  # flag of a database
_KINDS = _BRANCH | _LEAF | _OVERFLOW | _META | _LEAF2 | _SUBPAGE
_NO_PAGE = 0xFFFFFFFFFFFFFFFF

_PAGE = struct.Struct("<QHHHH")  # number, padding, flags, lower, upper
_META_HEAD = struct.Struct("<IIQQ")  # magic, version, address, map size
_DB = struct.Struct("<IHHQQQQQ")  # page size, flags, depth; branch, leaf, overflow pages; entries, root
_META_TAIL = struct.Struct("<QQ")  # last page, transaction
_NODE_BYTES = 8  # lower and upper half of a size, flags, size of the key: four times 2 bytes
_METAS = 2  # the first pages of a file are meta pages
_MAX_KEY = 511
_MAX_DEPTH = 32  # size of the stack of MDB_CURSOR

_CHECKED_PAGES = 1 << 14


class _Meta(NamedTuple):
    """The description of the main database in a meta page."""

    page_size: int
    flags: int
    depth: int
    tree_pages: int
    root: int
    pages: int  # of the complete file
    transaction: int


def check_lmdb(file: BinaryIO, size: int) -> None:
    """
    Raise an error if liblmdb would crash while it reads a file.

    Args:
        file: a file that is open for reading.
        size: size of the file in bytes.

    Raises:
        ValueError: the file is not an LMDB, is too short, or has a damaged page in its tree.
    """
    first = _read_meta(file, 0)
    second = _read_meta(file, first.page_size)
    if second.page_size != first.page_size:
        raise ValueError("its two meta pages have different page sizes")
    meta = second if second.transaction > first.transaction else first
    pages = size // meta.page_size
    if meta.root != _NO_PAGE and (pages < meta.pages or meta.tree_pages <= _CHECKED_PAGES):
        _Tree(file, meta, min(pages, meta.pages)).check()


def _read_meta(file: BinaryIO, place: int) -> _Meta:
    head = _read(file, place, _PAGE.size + _META_HEAD.size)
    flags = _PAGE.unpack_from(head)[2]
    magic, version, _, _ = _META_HEAD.unpack_from(head, _PAGE.size)
    if magic != _MAGIC or not flags & _META:
        raise ValueError(f"byte {place} is not the start of a meta page")
    if version != _VERSION:
        raise ValueError(f"its format has version {version} (expected {_VERSION})")
    rest = _read(file, place + len(head), 2 * _DB.size + _META_TAIL.size)
    page_size = _DB.unpack_from(rest)[0]
    _, db_flags, depth, branches, leaves, _, _, root = _DB.unpack_from(rest, _DB.size)
    last_page, transaction = _META_TAIL.unpack_from(rest, 2 * _DB.size)
    if not 512 <= page_size <= 65536 or page_size & (page_size - 1):
        raise ValueError(f"its page size is {page_size} (expected a power of 2 from 512 to 65536)")
    return _Meta(page_size, db_flags, depth, branches + leaves, root, last_page + 1, transaction)


def _read(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    content = file.read(size)
    if len(content) < size:
        raise ValueError(f"it ends before byte {place + size}")
    return content


class _Tree:
    """The tree of pages of the main database."""

    def __init__(self, file: BinaryIO, meta: _Meta, pages: int) -> None:
        self._file, self._meta, self._pages = file, meta, pages

    def check(self) -> None:
        """Raise ValueError if a page or node points outside of the file or of its page."""
        depth = self._meta.depth
        if not 1 <= depth < _MAX_DEPTH:
            raise ValueError(f"its tree has a depth of {depth}")
        level = [self._meta.root]
        for height in range(depth, 0, -1):
            below: list[int] = []
            for number in level:
                below += self._check_page(number, _BRANCH if height > 1 else _LEAF)
            if len(below) > self._meta.tree_pages:
                raise ValueError("its tree has more pages than its meta page says")
            level = below

    def _check_page(self, number: int, kind: int) -> list[int]:
        """Check a page. Return the pages that it points to if it is a branch."""
        page = self._page(number)
        own, _, flags, lower, upper = _PAGE.unpack_from(page)
        if own != number or flags & _KINDS != kind:
            raise ValueError(f"page {number} is not the expected page of the tree")
        if not _PAGE.size <= lower <= upper <= len(page) or lower % 2:
            raise ValueError(f"page {number} has no valid list of nodes")
        nodes = np.frombuffer(page, "<u2", (lower - _PAGE.size) // 2, _PAGE.size).astype(np.int64)
        if len(nodes) < (2 if kind == _BRANCH else 1):
            raise ValueError(f"page {number} has too few nodes")
        if nodes.min() < upper or nodes.max() + _NODE_BYTES > len(page) or (nodes % 2).any():
            raise ValueError(f"page {number} has a node outside of the page")
        words = np.frombuffer(page, "<u2").astype(np.int64)
        low, high, node_flags, key_sizes = (words[nodes // 2 + k] for k in range(4))
        ends = nodes + _NODE_BYTES + key_sizes
        if key_sizes.max() > _MAX_KEY or ends.max() > len(page):
            raise ValueError(f"page {number} has a key outside of the page")
        if kind == _BRANCH:
            return (low | high << 16 | node_flags << 32).tolist()
        self._check_values(number, page, ends, low | high << 16, node_flags)
        return []

    def _check_values(
        self, number: int, page: bytes, starts: np.ndarray, sizes: np.ndarray, flags: np.ndarray
    ) -> None:
        big = (flags & _BIG_DATA).astype(bool)
        if (flags & _DUP_DATA).any() and not self._meta.flags & _DUP_SORT:
            raise ValueError(f"page {number} has several values for one key, which the file does not allow")
        if (np.where(big, starts + 8, starts + sizes) > len(page)).any():
            raise ValueError(f"page {number} has a value outside of the page")
        if big.any():  # liblmdb takes the sizes of large values from the node, not from their first page
            first = np.array([struct.unpack_from("<Q", page, start)[0] for start in starts[big]], np.float64)
            count = np.ceil((sizes[big] + _PAGE.size) / self._meta.page_size)
            if first.min() < _METAS or (first + count).max() > self._pages:
                raise ValueError(f"page {number} points to a large value outside of the {self._extent()}")

    def _page(self, number: int) -> bytes:
        if not _METAS <= number < self._pages:
            raise ValueError(f"its tree points to page {number} outside of the {self._extent()}")
        return _read(self._file, number * self._meta.page_size, self._meta.page_size)

    def _extent(self) -> str:
        is_short = self._pages < self._meta.pages
        advice = f" (expected {self._meta.pages}). Was the file copied completely?" if is_short else ""
        return f"{self._pages} pages of the file{advice}"
