"""
Finding, downloading and unpacking the files of datasets.

In:  a directory, and an `Origin`: the name of a file, its mirrors and its checksum.
Out: the path of an existing file.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
import tarfile
import uuid
from dataclasses import dataclass
from typing import Any, Sequence, Tuple

from ...utils import logger
from ...utils.errors import DamagedFileError, parsing
from ...utils.fs import download, mkdir_p
from ...utils.unpacking import BoundedReader

_CHUNK_BYTES = 1 << 18
# errors that the name of a member causes, since the folder is new
_ABOUT_NAMES = (errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR)
_ADVICE = "Delete it, and it will be downloaded again."
_COMPRESSIONS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}


@dataclass(frozen=True)
class Origin:
    """
    Source of a file of a dataset.

    Attributes:
        name: the file's name.
        mirrors: URLs of directories that contain the file, each with a slash at the end, tried in this order.
        md5: its checksum. None if there is no published one; then the reader of the file checks its content.
    """

    name: str
    mirrors: Tuple[str, ...]
    md5: str | None = None


def find_file(who: object, origin: Origin, directory: str, argument: str = "dir", needed: Sequence[str] = ()) -> str:
    """
    Return the path of a file of a dataset, after downloading it if it is missing.

    Existing files are not compared with the checksum, so smaller or synthetic files in the same format also work.
    Downloaded files are, if the checksum is known.

    Args:
        who: the dataset, for the message.
        origin: name, mirrors and checksum of the file.
        directory: the directory of the file.
        argument: the dataset's argument for the directory, for the message.
        needed: all files that this split of the dataset needs, for the message.

    Raises:
        OSError: the file is missing and cannot be downloaded.
    """
    path = os.path.join(directory, origin.name)
    if os.path.isfile(path):
        return path
    failures = []
    for mirror in origin.mirrors:
        try:
            return download(mirror + origin.name, directory, md5=origin.md5)
        except OSError as error:
            failures.append(str(error))
    raise OSError(
        f"{type(who).__name__}: {origin.name} is not in {directory} and could not be downloaded. Put "
        f"{' and '.join(needed or [origin.name])} (from {origin.mirrors[0]}) into that directory, or pass another "
        f"one: {type(who).__name__}(..., {argument}=...). Tried: {'; '.join(failures)}"
    )


def unpack_tar(path: str, directory: str) -> None:
    """
    Unpack an archive safely: nothing is written outside of the directory.

    Only folders and regular files are unpacked, with the permissions of new files. They are unpacked into a temporary
    folder and moved when complete, so each top-level entry is complete or missing. Existing entries do not change.

    Args:
        path: a .tar, .tar.gz, .tar.bz2 or .tar.xz file.
        directory: the target directory; created if it does not exist.

    Raises:
        DamagedFileError: the archive is damaged, unpacks to too many bytes (see `utils.unpacking`), or a member has an
            absolute path, a path with "..", or is a link or a device. Nothing is unpacked.
        OSError: the archive cannot be read, or the disk is full.

    Note:
        It does not use the filters of `tarfile`, which need Python 3.12.
    """
    mkdir_p(directory)
    temporary = os.path.join(directory, f".{uuid.uuid4().hex}.part")
    os.mkdir(temporary)
    try:
        _extract(path, temporary)
        for name in sorted(os.listdir(temporary)):
            target = os.path.join(directory, name)
            if not os.path.lexists(target):
                os.rename(os.path.join(temporary, name), target)
    finally:
        shutil.rmtree(temporary)
    logger.info(f"Unpacked {path}.")


def _extract(path: str, directory: str) -> None:
    with open(path, "rb") as file:
        head = file.read(6)
    open_archive = next((opener for mark, opener in _COMPRESSIONS.items() if head.startswith(mark)), open)
    with parsing(path, "a tar archive", _ADVICE), open_archive(path, "rb") as unpacked:
        stream = BoundedReader(unpacked, path)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_StrictTarInfo) as archive:  # type: ignore[call-overload]
            for member in archive:
                _extract_member(archive, member, directory, path)
        while stream.read(_CHUNK_BYTES):
            pass  # read to the end, where gzip compares the checksum


class _StrictTarInfo(tarfile.TarInfo):
    """Header of a member. A damaged header raises an error; tarfile would treat it as the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _StrictTarInfo:
        """Read the next header."""
        try:
            return super().fromtarfile(tarfile_)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"at byte {tarfile_.offset}: {error}") from error


def _extract_member(archive: tarfile.TarFile, member: tarfile.TarInfo, directory: str, path: str) -> None:
    parts = member.name.replace("\\", "/").split("/")
    wrong = ""
    if os.path.isabs(member.name) or os.path.splitdrive(member.name)[0] or parts[0] == "":
        wrong = "has an absolute path"
    elif ".." in parts:
        wrong = "leads out of its folder"
    elif member.issparse() or not (member.isreg() or member.isdir()):
        wrong = "is a link, a device or a sparse file"
    if wrong:
        raise DamagedFileError(
            f"{path} was not unpacked: its member {member.name!r} {wrong}. "
            "It is not the archive of the dataset. Delete it."
        )
    try:
        _write_member(archive, member, os.path.join(directory, *parts))
    except OSError as error:
        if error.errno not in _ABOUT_NAMES:
            raise
        raise DamagedFileError(
            f"{path} was not unpacked: its member {member.name!r:.200} cannot be written: {error.strerror}."
        ) from error


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    if member.isdir():
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None, "bug: a regular file has content"
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file)
