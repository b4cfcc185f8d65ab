"""
Files of data sets: where they are, where they come from, and archives that stay in their folder.

In:  a directory, and an `Origin`: the name of a file and what the internet knows of it.
Out: the path of a file that is there.
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

__all__ = ["Origin", "find_file", "unpack_tar"]

_CHUNK_BYTES = 1 << 18
_ABOUT_NAMES = (
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
)  # of members; the folder is new
_ADVICE = "Delete it; it is downloaded again."
_COMPRESSIONS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}


@dataclass(frozen=True)
class Origin:
    """
    Where a file of a data set comes from.

    Attributes:
        name: the file's name.
        mirrors: URLs of directories that have it, each with a slash at its end; they are tried in this order.
        md5: its MD5; None when its publisher gives no checksum. Then the reader of the file checks its content.
    """

    name: str
    mirrors: Tuple[str, ...]
    md5: str | None = None


def find_file(
    who: object, origin: Origin, directory: str, argument: str = "dir", needed: Sequence[str] = ()
) -> str:
    """
    Return the path of a file of a data set, after downloading it if it is absent.

    A file that is there is used as it is, so smaller or fabricated ones in the same format do as well. What is
    downloaded has the right checksum, where one is known.

    Args:
        who: the data set.
        origin: of the file.
        directory: where it should be.
        argument: the data set's argument for the directory.
        needed: all files that this part of the data set needs; for the message.

    Raises:
        OSError: it is absent and cannot be downloaded.
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
        f"{' and '.join(needed or [origin.name])} (from {origin.mirrors[0]}) into that directory, or pass "
        f"{type(who).__name__}(..., {argument}=...) for another. Tried: {'; '.join(failures)}"
    )


def unpack_tar(path: str, directory: str) -> None:
    """
    Unpack an archive, and write nothing outside of the directory.

    Only folders and plain files are unpacked, with the permissions of new files. They are written aside and moved when
    all is there: each entry of the archive's top level is complete or absent. What is there already stays as it is.

    Args:
        path: a .tar, .tar.gz, .tar.bz2 or .tar.xz.
        directory: where to; made if it does not exist.

    Raises:
        DamagedFileError: the archive is damaged, unpacks to too much (see `utils.unpacking`), or has a member with an
            absolute path, a path with "..", a link or a device. Nothing of it is kept then.
        OSError: it cannot be read, or the disk is full.

    Note:
        It does not rely on the filters of `tarfile`, which came with Python 3.12.
    """
    mkdir_p(directory)
    aside = os.path.join(directory, f".{uuid.uuid4().hex}.part")
    os.mkdir(aside)
    try:
        _extract(path, aside)
        for name in sorted(os.listdir(aside)):
            target = os.path.join(directory, name)
            if not os.path.lexists(target):
                os.rename(os.path.join(aside, name), target)
    finally:
        shutil.rmtree(aside)
    logger.info(f"Unpacked {path}.")


def _extract(path: str, directory: str) -> None:
    with parsing(path, "a tar archive", _ADVICE), _opened(path) as unpacked:
        stream = BoundedReader(unpacked, path)
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_StrictTarInfo) as archive:  # type: ignore[call-overload]
            for member in archive:
                _extract_member(archive, member, directory, path)
        while stream.read(_CHUNK_BYTES):
            pass  # what follows the last member; at its very end gzip compares the checksum


def _opened(path: str) -> Any:
    """Open an archive, unpacked if it is compressed."""
    with open(path, "rb") as file:
        head = file.read(6)
    known = (open_ for mark, open_ in _COMPRESSIONS.items() if head.startswith(mark))
    return next(known, open)(path, "rb")


class _StrictTarInfo(tarfile.TarInfo):
    """The head of a member; a damaged one is an error, where tarfile would end as if the archive ended there."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Any:
        """Read the next head."""
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
        wrong = "is a link, a device or a file with holes"
    if wrong:
        raise DamagedFileError(
            f"{path} is refused, nothing of it was unpacked: its member {member.name!r} {wrong}. "
            "It is not the data set's archive; delete it."
        )
    try:
        _write_member(archive, member, os.path.join(directory, *parts))
    except OSError as error:
        if error.errno not in _ABOUT_NAMES:
            raise
        raise DamagedFileError(
            f"{path} is refused, nothing of it was unpacked: its member {member.name!r:.200}: {error.strerror}."
        ) from error


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    if member.isdir():
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None, "bug: a plain file has content"
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file)
