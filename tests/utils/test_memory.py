"""Tests of utils/memory.py: the limits of a container, and the memory of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from tensorpack_lite.utils.memory import available_memory, describe_shortage, unshared_memory


@pytest.mark.parametrize(
    ("limit", "usage", "folder"),
    [
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory"),
    ],
    ids=["version 2", "version 1"],
)
def test_the_limit_of_a_container(tmp_path, limit, usage, folder):
    """The limit less the usage counts; cached files that can be dropped are not usage."""
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / limit).write_text("5000\n")
    (tmp_path / folder / usage).write_text("3000\n")
    (tmp_path / folder / "memory.stat").write_text("anon 1000\ninactive_file 700\n")
    assert 2700 == available_memory(str(tmp_path))

    (tmp_path / folder / usage).write_text("6000\n")
    assert 0 == available_memory(str(tmp_path))


def test_no_limit(tmp_path):
    """Without a limit, the memory of the machine counts."""
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("")
    assert psutil.virtual_memory().total // 100 < available_memory(str(tmp_path)) <= psutil.virtual_memory().total


def test_shortage(monkeypatch, tmp_path):
    """Memory and shared memory of which less than 2 % is available are named; otherwise there is nothing to say."""
    (tmp_path / "memory.max").write_text(f"{1000 << 20}\n")
    (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    free = SimpleNamespace(f_bavail=2, f_blocks=100, f_frsize=1 << 20)
    full = SimpleNamespace(f_bavail=1, f_blocks=100, f_frsize=1 << 20)
    monkeypatch.setattr(os, "statvfs", {"free": free, "full": full}.__getitem__)
    (tmp_path / "memory.current").write_text(f"{900 << 20}\n")
    assert "" == describe_shortage(str(tmp_path), "free")
    assert "full is full: 1 of 100 MB are free." == describe_shortage(str(tmp_path), "full")
    (tmp_path / "memory.current").write_text(f"{990 << 20}\n")
    assert "Memory is nearly full: 10 of 1000 MB are available." == describe_shortage(str(tmp_path), "free")


def test_unshared_memory():
    """A process counts at least the bytes that it has written to; processes that have ended are omitted."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    written = b"1" * 50_000_000
    assert len(written) <= unshared_memory([os.getpid(), ended.pid])
    assert 0 == unshared_memory([ended.pid])
    assert 0 == unshared_memory([])
