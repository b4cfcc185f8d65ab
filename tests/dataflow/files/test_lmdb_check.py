"""Tests for the check of LMDB files, with short files that would crash liblmdb."""

from __future__ import annotations

import io
import os
import random
import struct

import pytest

from tensorpack_lite.dataflow import DataFromList, LMDBSerializer
from tensorpack_lite.dataflow.files.lmdb_check import check_lmdb
from tensorpack_lite.utils.errors import DamagedFileError

lmdb = pytest.importorskip("lmdb")
PAGE = 4096  # on the machines that run the tests


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
