"""
Anonymous memory that two processes share.

The memory is a file in memory without a name. Its file descriptor can be sent to another process, and the system
releases the memory when the last process that uses it ends, even by SIGKILL.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile

LIMIT_VARIABLE = "TENSORPACK_SHARED_MEMORY_MB"
_DEFAULT_LIMIT_MB = 256
_MFD_CLOEXEC = 1  # linux/memfd.h


def limit_bytes() -> int:
    """
    Return how much shared memory one worker may use in one direction.

    Returns:
        Bytes. The environment variable `TENSORPACK_SHARED_MEMORY_MB` sets the limit in megabytes (default 256; 0 turns
        shared memory off) and is read at each call.

    Raises:
        ValueError: the variable is not an integer >= 0.
    """
    text = os.environ.get(LIMIT_VARIABLE, str(_DEFAULT_LIMIT_MB))
    if not text.isdigit():
        raise ValueError(
            f"{LIMIT_VARIABLE}: the limit is invalid (expected megabytes as an integer >= 0, got {text!r}). "
            "Set 0 to turn shared memory off."
        )
    return int(text) << 20


def allocate(num_bytes: int) -> int:
    """
    Allocate memory that can be shared.

    The pages are reserved at once. Otherwise a process that writes to them when memory runs out would be killed
    (SIGBUS).

    Args:
        num_bytes: size; > 0.

    Returns:
        A file descriptor; the caller closes it.

    Raises:
        OSError: there is not enough memory, or the system does not support such memory.
    """
    handle = open_unnamed()
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
    Map the memory of a file descriptor, and close the descriptor.

    Args:
        handle: result of `allocate` in this process, or received from another process.
        num_bytes: size of the memory.

    Returns:
        The memory. It is released with this object and the last array that uses it.
    """
    try:
        return mmap.mmap(handle, num_bytes)
    finally:
        os.close(handle)


def open_unnamed(name: str = "tensorpack_lite") -> int:
    """
    Open a new, empty file in memory. Return its file descriptor, which the caller closes.

    Args:
        name: for people who look at /proc; ASCII.

    memfd_create does not depend on the size of /dev/shm, which is 64 MB in many containers. (Python has it as
    `os.memfd_create` since 3.8, the C library since 2018.) Without memfd_create, use a file that is unlinked at once.
    """
    create = getattr(ctypes.CDLL(None, use_errno=True), "memfd_create", None)
    if create is not None:
        handle: int = create(name.encode(), _MFD_CLOEXEC)
        if handle >= 0:
            return handle
    directory = "/dev/shm" if sys.platform.startswith("linux") and os.path.isdir("/dev/shm") else None
    handle, path = tempfile.mkstemp(prefix="tensorpack_lite-", dir=directory)
    os.unlink(path)
    return handle
