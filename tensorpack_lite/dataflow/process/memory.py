"""
Memory that two processes see, without a name.

A file in memory whose only handle is a file descriptor: it can be sent to another process, and is gone when the last
process that has it is gone, also after SIGKILL.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile

__all__ = ["LIMIT_VARIABLE", "allocate", "limit_bytes", "map_memory"]

LIMIT_VARIABLE = "TENSORPACK_SHARED_MEMORY_MB"
_DEFAULT_LIMIT_MB = 256
_MFD_CLOEXEC = 1  # linux/memfd.h


def limit_bytes() -> int:
    """
    Tell how much shared memory one worker may use in one direction.

    Returns:
        Bytes: `$TENSORPACK_SHARED_MEMORY_MB` (default 256) as read now. 0 turns shared memory off.

    Raises:
        ValueError: the variable is not a whole number >= 0.
    """
    text = os.environ.get(LIMIT_VARIABLE, str(_DEFAULT_LIMIT_MB))
    if not text.isdigit():
        raise ValueError(f"{LIMIT_VARIABLE}: takes a whole number of megabytes, 0 for none; got {text!r}.")
    return int(text) << 20


def allocate(num_bytes: int) -> int:
    """
    Reserve memory that can be shared.

    The space is really taken here: a file that only has a length would kill whoever writes to it when memory runs out
    (SIGBUS).

    Args:
        num_bytes: how much; > 0.

    Returns:
        A file descriptor; the caller closes it.

    Raises:
        OSError: there is not so much, or the system has no such memory.
    """
    handle = _open_unnamed()
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, num_bytes)
        else:
            os.ftruncate(handle, num_bytes)
    except OSError:
        os.close(handle)
        raise
    return handle


def map_memory(handle: int, num_bytes: int) -> mmap.mmap:
    """
    Make the memory of a file descriptor visible, and close the descriptor.

    Args:
        handle: of `allocate`, in this process or in another one.
        num_bytes: its size.

    Returns:
        The memory. It stays as long as this object, or an array on it, lives.
    """
    try:
        return mmap.mmap(handle, num_bytes)
    finally:
        os.close(handle)


def _open_unnamed() -> int:
    """
    Open a new file in memory.

    memfd_create does not depend on the size of /dev/shm, which is 64 MB in many containers. (`os.memfd_create` is of
    Python 3.8; the C library has it since 2018.) Elsewhere: a file that loses its name at once.
    """
    create = getattr(ctypes.CDLL(None, use_errno=True), "memfd_create", None)
    if create is not None:
        handle: int = create(b"tensorpack_lite", _MFD_CLOEXEC)
        if handle >= 0:
            return handle
    directory = "/dev/shm" if sys.platform.startswith("linux") and os.path.isdir("/dev/shm") else None
    handle, path = tempfile.mkstemp(prefix="tensorpack_lite-", dir=directory)
    os.unlink(path)
    return handle
