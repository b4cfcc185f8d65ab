"""Directories, paths and downloads."""

from __future__ import annotations

import hashlib
import os
import socket
import urllib.request
import uuid
import zipfile
from http.client import HTTPException
from typing import IO, Any, Iterator, Mapping
from urllib.error import URLError

import numpy as np

from . import logger
from .argtools import log_once
from .errors import type_error
from .utils import get_tqdm

__all__ = ["download", "get_dataset_path", "mkdir_p", "normpath", "recursive_walk", "write_npz"]

_TIMEOUT_SECONDS = 30
_CHUNK_BYTES = 1 << 18
# not OSError: a full disk is our end
_NETWORK_ERRORS = (URLError, HTTPException, ConnectionError, socket.timeout)


def mkdir_p(dirname: str) -> None:
    """
    Make a directory and its parents, unless they exist.

    Args:
        dirname: the directory; nothing happens for "".

    Raises:
        TypeError: not a path, e.g. None.

    tensorpack: same; there None is an AssertionError.
    """
    if not isinstance(dirname, (str, os.PathLike)):
        raise type_error("mkdir_p", "a path", dirname)
    if os.fspath(dirname):
        os.makedirs(dirname, exist_ok=True)


def download(
    url: str,
    dir: str,
    filename: str | None = None,
    expect_size: int | None = None,
    sha256: str | None = None,
    md5: str | None = None,
) -> str:
    """
    Download a file, unless it is there already.

    The file is written aside, checked, and then renamed: under its name it is complete or absent. A file that exists is
    kept when it agrees with what is given of `expect_size`, `sha256` and `md5`; when none is given, it is
    downloaded again.

    Args:
        url: where from; http, https, ftp or file.
        dir: the directory; made if it does not exist.
        filename: name of the file. Default: the last part of the URL.
        expect_size: its size in bytes. Another size is only logged as an error; a checksum decides.
        sha256: its SHA-256, in hexadecimal.
        md5: its MD5, in hexadecimal; for data sets that publish no better one.

    Returns:
        The path of the file.

    Raises:
        OSError: no network, no such file, an empty file, a wrong checksum. Nothing is left behind then.

    tensorpack: same; `sha256` and `md5` are new, and there an interrupted download leaves a broken file.
    """
    mkdir_p(dir)
    path = os.path.join(dir, filename or url.rstrip("/").split("/")[-1])
    if os.path.isfile(path) and _is_the_wanted(path, expect_size, sha256, md5):
        logger.info(f"File {os.path.basename(path)} exists! Skip download.")
        return path
    temporary = f"{path}.{uuid.uuid4().hex}.part"
    try:
        _fetch(url, temporary, path)
        _check_download(url, temporary, expect_size, sha256, md5)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    logger.info(f"Successfully downloaded {os.path.basename(path)}. {os.path.getsize(path)} bytes.")
    return path


def get_dataset_path(*args: str) -> str:
    """
    Get a path below the directory of data sets.

    That is `$TENSORPACK_DATASET`, or `~/tensorpack_data`, which is made when it does not exist.

    Args:
        *args: parts of the path.

    Raises:
        ValueError: `$TENSORPACK_DATASET` is not a directory.

    Example:
        >>> get_dataset_path("mnist_data")  # doctest: +SKIP
        '/home/me/tensorpack_data/mnist_data'

    tensorpack: same; there an AssertionError.
    """
    root = os.environ.get("TENSORPACK_DATASET")
    if root is None:
        root = os.path.join(os.path.expanduser("~"), "tensorpack_data")
        log_once(f"$TENSORPACK_DATASET not set, using {root} for data sets.", "warning")
        mkdir_p(root)
    if not os.path.isdir(root):
        raise ValueError(
            f"get_dataset_path: $TENSORPACK_DATASET is {root!r}, which is not a directory. Make it, or unset the variable."
        )
    return os.path.join(root, *args)


def recursive_walk(rootdir: str) -> Iterator[str]:
    """
    Walk through all files below a directory.

    Yields:
        Their paths, beginning with `rootdir`, in the same order on every machine.

    tensorpack: same; there in the order of the file system.
    """
    for directory, subdirectories, files in os.walk(rootdir):
        subdirectories.sort()
        for name in sorted(files):
            yield os.path.join(directory, name)


def normpath(p: str) -> str:
    """
    Normalise a path, and leave URLs ("gs://...") as they are.

    tensorpack: same.
    """
    return p if "://" in p else os.path.normpath(p)


def _digest(path: str, algorithm: str) -> str:
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _wrong_checksum(path: str, sha256: str | None, md5: str | None) -> str:
    """Return what is wrong with the checksum of a file, or ""."""
    for algorithm, wanted in (("sha256", sha256), ("md5", md5)):
        if wanted is not None:
            got = _digest(path, algorithm)
            if got != wanted.lower():
                return f"{algorithm} is {got}, wanted {wanted}"
    return ""


def _is_the_wanted(path: str, expect_size: int | None, sha256: str | None, md5: str | None) -> bool:
    if expect_size is None and sha256 is None and md5 is None:
        return False
    if expect_size is not None and os.path.getsize(path) != expect_size:
        return False
    return not _wrong_checksum(path, sha256, md5)


def _fetch(url: str, temporary: str, path: str) -> None:
    """Write the content of a URL to a temporary file."""
    request = urllib.request.Request(url, headers={"User-Agent": "tensorpack_lite"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response, open(
            temporary, "wb"
        ) as file:
            _copy(response, file, os.path.basename(path))
    except _NETWORK_ERRORS as error:
        reason = getattr(error, "reason", error)
        raise OSError(
            f"download: cannot get {url}: {reason}. Without network, put the file at {path} yourself."
        ) from error


def _copy(response: Any, file: Any, name: str) -> None:
    size = int(response.headers.get("Content-Length") or 0)
    copied = 0
    with get_tqdm(total=size or None, unit="B", unit_scale=True, desc=name) as progress:
        for chunk in iter(lambda: response.read(_CHUNK_BYTES), b""):
            file.write(chunk)
            copied += len(chunk)
            progress.update(len(chunk))
    if copied < size:
        raise ConnectionError(f"the connection ended after {copied} of {size} bytes")


def _check_download(
    url: str, path: str, expect_size: int | None, sha256: str | None, md5: str | None
) -> None:
    size = os.path.getsize(path)
    if size == 0:
        raise OSError(f"download: {url} gave an empty file.")
    wrong = _wrong_checksum(path, sha256, md5)
    if wrong:
        raise OSError(
            f"download: {url} gave a file whose {wrong}. It was thrown away; is the URL still right?"
        )
    if expect_size is not None and size != expect_size:
        logger.error(
            f"download: {url} gave {size} bytes, wanted {expect_size}. You may have got a wrong file!"
        )


def write_npz(file: str | IO[bytes], arrays: Mapping[str, Any], compress: bool = False) -> None:
    """
    Write an `.npz` file, which `np.load` reads.

    Unlike `np.savez(file, **arrays)`, it takes every name, also "file" and "allow_pickle".

    Args:
        file: a path, or a file that is open for writing bytes.
        arrays: `{name: array}`.
        compress: make the file smaller, which takes longer.
    """
    compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array))
