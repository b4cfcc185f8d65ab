"""Memory that two processes see, without a name."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

import pytest

from tensorpack_lite.dataflow.process import memory
from tensorpack_lite.dataflow.process.memory import LIMIT_VARIABLE, allocate, limit_bytes, map_memory


class TestAllocate:
    def test_two_maps_are_one_memory(self):
        """What one sees the other does."""
        handle = allocate(8192)
        one, two = map_memory(os.dup(handle), 8192), map_memory(handle, 8192)
        one[5000] = 7
        assert 7 == two[5000]

    def test_nothing_has_a_name(self):
        """No file appears, in /dev/shm or elsewhere."""
        before = sorted(os.listdir("/dev/shm"))
        handle = allocate(4096)
        assert before == sorted(os.listdir("/dev/shm"))
        os.close(handle)

    def test_without_memfd_it_is_a_file_that_lost_its_name(self, monkeypatch):
        """Older C libraries and other systems."""
        monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: object())
        before = sorted(os.listdir("/dev/shm"))
        shared = map_memory(allocate(4096), 4096)
        shared[0] = 1
        assert before == sorted(os.listdir("/dev/shm"))

    def test_what_is_not_there_is_refused_at_once(self):
        """Not when it is written to: that would be SIGBUS."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                allocate(2 << 20)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)

    def test_where_space_cannot_be_reserved_it_is_only_sized(self, monkeypatch):
        """macOS has no posix_fallocate."""
        monkeypatch.delattr(os, "posix_fallocate")
        assert 4096 == len(map_memory(allocate(4096), 4096))


class TestLimit:
    def test_default(self, monkeypatch):
        """256 MB."""
        monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
        assert 256 << 20 == limit_bytes()

    def test_is_read_when_asked(self, monkeypatch):
        """Scripts may set it before they reset a DataFlow."""
        monkeypatch.setenv(LIMIT_VARIABLE, "3")
        assert 3 << 20 == memory.limit_bytes()

    @pytest.mark.parametrize("text", ["many", "-1", "1.5", ""])
    def test_nonsense_is_refused(self, monkeypatch, text):
        """The message names the variable."""
        monkeypatch.setenv(LIMIT_VARIABLE, text)
        with pytest.raises(ValueError, match=f"{LIMIT_VARIABLE}: takes a whole number of megabytes"):
            limit_bytes()
