"""Directories, paths and downloads."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import socket
import time
import urllib.request
import uuid
from http.client import HTTPException
from typing import TYPE_CHECKING, Iterator
from urllib.error import URLError

from . import logger
from .argtools import log_once
from .checks import check_type
from .missing_names import explain_missing_names
from .utils import get_tqdm

__all__ = [
    "download", "get_dataset_path", "mkdir_p", "normpath", "recursive_walk",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)

_TIMEOUT_SECONDS = 30
_ABANDONED_SECONDS = 3600
_CHUNK_BYTES = 1 << 18
# what file systems that cannot flush files or directories answer, such as CIFS and DrvFs; for them, the system decides when
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EBADF)
# not OSError: a full disk is not a network error
_NETWORK_ERRORS = (URLError, HTTPException, ConnectionError, socket.timeout)


def mkdir_p(dirname: str) -> None:
    """
    Create a directory and its parents, unless they exist.

    Args:
        dirname: the directory; "" does nothing.

    Raises:
        TypeError: `dirname` is not a path.
    """
    check_type("mkdir_p: dirname", dirname, (str, os.PathLike), "a path")
    if os.fspath(dirname):
        os.makedirs(dirname, exist_ok=True)


def flush_to_disk(path: str) -> None:
    """
    Flush a file, or the names in a directory, to the disk, so that a crash of the machine does not lose them.

    On a file system that cannot do this, a warning is logged once.

    Args:
        path: the file, or the directory (POSIX only).

    Raises:
        OSError: the disk has failed or is full; the error names the path.
    """
    is_directory = os.path.isdir(path)
    try:
        descriptor = os.open(path, os.O_RDONLY if is_directory else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise OSError(error.errno, f"cannot flush to the disk: {error.strerror}", path) from error
        log_once(
            f"The file system cannot flush files or directories to the disk ({error.strerror}). A crash of the machine, but not of "
            "the training, may damage the files that were written last.",
            "warning",
        )


def download(
    url: str,
    dir: str,
    filename: str | None = None,
    expect_size: int | None = None,
    sha256: str | None = None,
    md5: str | None = None,
) -> str:
    """
    Download a file, unless it exists.

    The file is written as `<filename>.<random>.part`, checked, and then renamed, so a file with the final name is
    complete. An existing file is kept if it has the given `expect_size`, `sha256` and `md5`, and downloaded
    again if none of them is given. `.part` files of killed downloads are removed by a later call, one hour
    after their last change.

    Args:
        url: an http, https, ftp or file URL.
        dir: the directory; created if it does not exist.
        filename: name of the file. Default: the last part of the URL.
        expect_size: its size in bytes. Another size is only logged as an error; use a checksum to be sure.
        sha256: its SHA-256, in hexadecimal.
        md5: its MD5, in hexadecimal; for data sets that publish no better checksum.

    Returns:
        The path of the file.

    Raises:
        OSError: the file cannot be downloaded, is empty, or has another checksum. It is removed then.
    """
    mkdir_p(dir)
    path = os.path.join(dir, filename or url.rstrip("/").split("/")[-1])
    _remove_abandoned_parts(path)
    if os.path.isfile(path) and _is_expected(path, expect_size, sha256, md5):
        logger.info(f"Skipping the download of {os.path.basename(path)}, which exists.")
        return path
    part = f"{path}.{uuid.uuid4().hex}.part"
    try:
        _fetch(url, part, path)
        _check_download(url, part, expect_size, sha256, md5)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)
    logger.info(f"Downloaded {os.path.basename(path)}, {os.path.getsize(path)} bytes.")
    return path


def get_dataset_path(*args: str) -> str:
    """
    Return a path in the directory of data sets.

    The directory is `$TENSORPACK_DATASET`, or `~/tensorpack_data`, which is created if it does not exist.

    Args:
        *args: parts of the path.

    Raises:
        ValueError: `$TENSORPACK_DATASET` is not a directory.

    Example:
        >>> get_dataset_path("mnist_data")  # doctest: +SKIP
        '/home/me/tensorpack_data/mnist_data'
    """
    root = os.environ.get("TENSORPACK_DATASET")
    if root is None:
        root = os.path.join(os.path.expanduser("~"), "tensorpack_data")
        log_once(f"$TENSORPACK_DATASET not set, using {root} for data sets.", "warning")
        mkdir_p(root)
    if not os.path.isdir(root):
        raise ValueError(
            f"get_dataset_path: $TENSORPACK_DATASET is {root!r}, which is not a directory. Create it, or unset the variable."
        )
    return os.path.join(root, *args)


def recursive_walk(rootdir: str) -> Iterator[str]:
    """
    Yield the paths of all files in a directory and its subdirectories.

    The paths begin with `rootdir`. Their order is the same on every machine.
    """
    for directory, subdirectories, files in os.walk(rootdir):
        subdirectories.sort()
        for name in sorted(files):
            yield os.path.join(directory, name)


def absolute(path: str) -> str:
    """Return the absolute path, which a change of the working directory does not move. URLs are returned unchanged."""
    return path if "://" in path else os.path.abspath(path)


def normpath(p: str) -> str:
    """Normalize a path. URLs ("gs://...") are returned unchanged."""
    return p if "://" in p else os.path.normpath(p)


def _remove_abandoned_parts(path: str) -> None:
    """Remove the `.part` files of killed downloads. A running download changes its file all the time."""
    for part in glob.glob(f"{glob.escape(path)}.*.part"):
        try:
            if time.time() - os.path.getmtime(part) > _ABANDONED_SECONDS:
                os.remove(part)
        except FileNotFoundError:  # another process has renamed or removed it
            continue


def _digest(path: str, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _wrong_checksum(path: str, sha256: str | None, md5: str | None) -> str:
    """Describe the wrong checksum of a file. "" if the given checksums are right."""
    for algorithm, expected in (("sha256", sha256), ("md5", md5)):
        if expected is not None:
            got = _digest(path, algorithm)
            if got != expected.lower():
                return f"wrong {algorithm} (expected {expected}, got {got})"
    return ""


def _is_expected(path: str, expect_size: int | None, sha256: str | None, md5: str | None) -> bool:
    is_known = any(expected is not None for expected in (expect_size, sha256, md5))
    has_size = expect_size is None or os.path.getsize(path) == expect_size
    return is_known and has_size and not _wrong_checksum(path, sha256, md5)


def _fetch(url: str, part: str, path: str) -> None:
    """Write the content of a URL to a `.part` file."""
    request = urllib.request.Request(url, headers={"User-Agent": "tensorpack_lite"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response, open(part, "wb") as file:
            size = int(response.headers.get("Content-Length") or 0)
            name = os.path.basename(path)
            with get_tqdm(total=size or None, unit="B", unit_scale=True, desc=name) as progress:
                for chunk in iter(lambda: response.read(_CHUNK_BYTES), b""):
                    file.write(chunk)
                    progress.update(len(chunk))
            if file.tell() < size:
                raise ConnectionError(f"the connection ended after {file.tell()} of {size} bytes")
    except _NETWORK_ERRORS as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"download: cannot get {url}: {reason}. Without a network, put the file at {path} yourself."
        ) from error


def _check_download(url: str, path: str, expect_size: int | None, sha256: str | None, md5: str | None) -> None:
    size = os.path.getsize(path)
    if size == 0:
        raise OSError(f"download: {url} is an empty file.")
    wrong = _wrong_checksum(path, sha256, md5)
    if wrong:
        raise OSError(
            f"download: the file from {url} has the {wrong} and was removed. Check whether the URL is still right."
        )
    if expect_size is not None and size != expect_size:
        logger.error(f"download: the file from {url} has the wrong size (expected {expect_size} bytes, got {size}).")
