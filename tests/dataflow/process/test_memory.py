"""Tests for anonymous shared memory."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

import pytest

from tensorpack_lite.dataflow.process import memory
from tensorpack_lite.dataflow.process.memory import LIMIT_VARIABLE, allocate, limit_bytes, map_memory


class TestAllocate:
    def test_no_file_appears(self):
        """Allocating memory creates no file in /dev/shm."""
        before = sorted(os.listdir("/dev/shm"))
        handle = allocate(4096)
        assert before == sorted(os.listdir("/dev/shm"))
        os.close(handle)

    def test_without_memfd(self, monkeypatch):
        """Without memfd_create, the memory is a file that is unlinked at once."""
        monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: object())
        before = sorted(os.listdir("/dev/shm"))
        shared = map_memory(allocate(4096), 4096)
        shared[0] = 1
        assert before == sorted(os.listdir("/dev/shm"))

    def test_missing_memory_is_an_error_at_once(self):
        """Too little memory is an OSError of `allocate`, not a SIGBUS at a later write."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                allocate(2 << 20)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)

    def test_without_posix_fallocate(self, monkeypatch):
        """Without posix_fallocate, as on macOS, the memory is not reserved but has the right size."""
        monkeypatch.delattr(os, "posix_fallocate")
        assert 4096 == len(map_memory(allocate(4096), 4096))


class TestLimit:
    def test_the_variable_is_read_at_each_call(self, monkeypatch):
        """A script may set the variable at any time before it resets a DataFlow."""
        monkeypatch.setenv(LIMIT_VARIABLE, "3")
        assert 3 << 20 == memory.limit_bytes()

    @pytest.mark.parametrize("text", ["many", "-1", "1.5", ""])
    def test_an_invalid_limit(self, monkeypatch, text):
        """A limit that is not an integer >= 0 is a ValueError that names the variable."""
        monkeypatch.setenv(LIMIT_VARIABLE, text)
        with pytest.raises(
            ValueError, match=f"{LIMIT_VARIABLE}: the limit is invalid .expected megabytes as an integer"
        ):
            limit_bytes()
