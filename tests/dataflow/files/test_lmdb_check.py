"""Tests for the check of LMDB files, with damaged files that would crash liblmdb."""

from __future__ import annotations

import io
import os
import random
import re
import struct

import pytest

from tensorpack_lite.dataflow import DataFromList, LMDBSerializer
from tensorpack_lite.dataflow.files import lmdb_check
from tensorpack_lite.dataflow.files.lmdb_check import check_lmdb
from tensorpack_lite.utils.errors import DamagedFileError

lmdb = pytest.importorskip("lmdb")
PAGE = 4096  # on the machines that run the tests
BRANCH, LEAF, OVERFLOW = 1, 2, 4


@pytest.fixture
def intact(tmp_path):
    """The content of a file with branches, leaves, large values and free pages."""
    path = str(tmp_path / "intact.lmdb")
    with lmdb.open(path, subdir=False, lock=False, map_size=1 << 26) as environment:
        for first in (0, 200):
            with environment.begin(write=True) as transaction:
                for k in range(first, first + 400):
                    transaction.put(b"%08d" % k, bytes(9000 if k % 50 == 0 else 30))
    with open(path, "rb") as file:
        return file.read()


def check(content):
    check_lmdb(io.BytesIO(content), len(content))


def meta_place(content):
    """Return the place of the meta page of the last transaction."""
    transactions = [struct.unpack_from("<Q", content, k * PAGE + 144)[0] for k in (0, 1)]
    return PAGE * transactions.index(max(transactions))


def pages_of(content, kind):
    """Return the places of the pages of a kind in the tree."""
    return [place for place in range(2 * PAGE, len(content), PAGE) if is_page(content, place, kind)]


def is_page(content, place, kind):
    number, _, flags = struct.unpack_from("<QHH", content, place)
    return number == place // PAGE and flags & 7 == kind


def patched(content, place, form, *values):
    """Return a copy in which some numbers are replaced."""
    copy = bytearray(content)
    struct.pack_into(form, copy, place, *values)
    return bytes(copy)


def test_an_intact_file(intact):
    """A file of liblmdb passes."""
    check(intact)


def test_an_empty_database(tmp_path):
    """A database without entries, which has no tree, passes."""
    with lmdb.open(str(tmp_path / "e"), subdir=False, lock=False):
        pass
    check((tmp_path / "e").read_bytes())


def test_intact_files_that_are_shorter_than_they_say(tmp_path):
    """A file that lacks only free pages at its end passes, because liblmdb does not write them."""
    shorter = 0
    for seed in (9, 144, 151):
        path = str(tmp_path / str(seed))
        shorter += written_at_random(path, seed) * PAGE > os.path.getsize(path)
        with open(path, "rb") as file:
            check_lmdb(file, os.path.getsize(path))
    if not shorter:
        pytest.skip("this liblmdb has written all pages")


def written_at_random(path, seed):
    """Put and delete random entries. Return the number of pages that the file claims to have."""
    rng, keys = random.Random(seed), set()
    with lmdb.open(path, subdir=False, lock=False, map_size=1 << 28, sync=False) as environment:
        for _ in range(rng.randrange(1, 6)):
            with environment.begin(write=True) as transaction:
                for _ in range(rng.randrange(1, 300)):
                    if rng.random() < 0.6 or not keys:
                        key = b"%06d" % rng.randrange(2000)
                        transaction.put(key, bytes(rng.choice([10, 900, 9000])))
                        keys.add(key)
                    else:
                        key = rng.choice(sorted(keys))
                        transaction.delete(key)
                        keys.discard(key)
        return environment.info()["last_pgno"] + 1


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.99])
def test_a_file_that_was_not_copied_to_its_end(tmp_path, kept):
    """A truncated file is an error that names the expected number of pages, instead of a SIGBUS."""
    path = str(tmp_path / "d.lmdb")
    LMDBSerializer.save(DataFromList([[bytes(3000)] for _ in range(100)], shuffle=False), path)
    os.truncate(path, int(os.path.getsize(path) * kept))
    with pytest.raises(
        DamagedFileError,
        match=r"d.lmdb cannot be read as an LMDB: .*\(expected \d+\). Was the file copied completely",
    ):
        LMDBSerializer.load(path)


@pytest.mark.parametrize(
    ("place", "form", "value", "match"),
    [
        (10, "<H", 0, "byte 0 is not the start of a meta page"),
        (16, "<I", 0xDEADBEEF, "byte 0 is not the start of a meta page"),
        (20, "<I", 999, r"has version 999 \(expected 1\)"),
        (40, "<I", 5000, "page size is 5000"),
        (40, "<I", 8192, "byte 8192 is not the start of a meta page"),
    ],
)
def test_a_damaged_meta_page(intact, place, form, value, match):
    """Each number of a meta page that liblmdb uses is checked."""
    with pytest.raises(ValueError, match=match):
        check(patched(intact, place, form, value))


def test_a_damaged_root(intact):
    """A root outside of the file and an impossible depth are detected."""
    place = meta_place(intact) + 88  # the main database
    with pytest.raises(ValueError, match="outside of the .* pages of the file"):
        check(patched(intact, place + 40, "<Q", 1 << 40))
    with pytest.raises(ValueError, match="a depth of 99"):
        check(patched(intact, place + 6, "<H", 99))


@pytest.mark.parametrize(
    ("kind", "place", "form", "values", "match"),
    [
        (LEAF, 0, "<Q", (3,), "is not the expected page of the tree"),
        (LEAF, 10, "<H", (BRANCH,), "is not the expected page of the tree"),
        (LEAF, 12, "<HH", (20, 16), "no valid list of nodes"),
        (LEAF, 12, "<HH", (16, 4096), "has too few nodes"),
        (LEAF, 16, "<H", (4094,), "a node outside of the page"),
        (LEAF, 16, "<H", (4090,), "a (node|key) outside of the page"),
        (BRANCH, 16, "<H", (2,), "a node outside of the page"),
    ],
)
def test_a_damaged_page(intact, kind, place, form, values, match):
    """A page whose numbers point outside of it is detected anywhere in the tree."""
    damaged = [patched(intact, page + place, form, *values) for page in pages_of(intact, kind)]
    assert any(re.search(match, text) for text in complaints(damaged))


def complaints(contents):
    """Return the errors of these contents. Damage to a free page does not matter."""
    told = []
    for content in contents:
        try:
            check(content)
        except ValueError as error:
            told.append(str(error))
    return told


def node_of(content, page, number):
    """Return the place of a node."""
    return page + struct.unpack_from("<H", content, page + 16 + 2 * number)[0]


@pytest.mark.parametrize(
    ("offset", "form", "value", "match"),
    [
        (6, "<H", 60000, "a key outside of the page"),
        (0, "<H", 60000, "a value outside of the page"),
        (4, "<H", 4, "several values for one key"),
    ],
)
def test_a_damaged_node(intact, offset, form, value, match):
    """A node whose sizes point outside of its page is detected."""
    damaged = [
        patched(intact, node_of(intact, page, 1) + offset, form, value) for page in pages_of(intact, LEAF)
    ]
    assert any(match in text for text in complaints(damaged))


def test_a_large_value_outside_of_the_file(intact):
    """A large value whose size in its node exceeds the file is detected."""
    nodes = [
        node_of(intact, page, number)
        for page in pages_of(intact, LEAF)
        for number in range((struct.unpack_from("<H", intact, page + 12)[0] - 16) // 2)
    ]
    large = [node for node in nodes if struct.unpack_from("<H", intact, node + 4)[0] & 1]
    told = complaints(patched(intact, node, "<HH", 0, 0x7FFF) for node in large)
    assert any("points to a large value outside of the" in text for text in told)


def test_a_tree_that_is_too_large_is_not_followed(intact, monkeypatch):
    """If the tree has too many pages, only the size of the file is checked."""
    damaged = patched(intact, pages_of(intact, BRANCH)[-1], "<Q", 3)
    monkeypatch.setattr(lmdb_check, "_CHECKED_PAGES", 2)
    check(damaged)
    with pytest.raises(ValueError, match="Was the file copied completely"):
        check(intact[: len(intact) // 2])
