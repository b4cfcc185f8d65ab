"""
Files of data sets: where they are, where they come from, and archives that stay in their folder.

In:  a directory, and an `Origin`: the name of a file and what the internet knows of it.
Out: the path of a file that is there.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import uuid
import zlib
from dataclasses import dataclass
from typing import Any, Sequence, Tuple

from ...utils import logger
from ...utils.fs import download, mkdir_p

__all__ = ["Origin", "find_file", "unpack_tar"]

_CHUNK_BYTES = 1 << 18


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
        ValueError: an absolute name, one with "..", a link, a device: nothing of the archive is kept then. Or the
            archive is damaged.
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
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                _extract_member(archive, member, directory, path)
            stream: Any = archive.fileobj
            while stream.read(_CHUNK_BYTES):
                pass  # what follows the last member; at its very end gzip compares the checksum
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        # gzip's own errors have no number; a full disk and a missing file have one
        if error.errno is not None:
            raise
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> ValueError:
    reason = str(error).split("\n", maxsplit=1)[0].rstrip(":.")  # tarfile goes on to list every compression
    return ValueError(f"{path} cannot be unpacked: {reason}. Delete it; it is downloaded again.")


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
        raise ValueError(
            f"{path} is refused, nothing of it was unpacked: its member {member.name!r} {wrong}. "
            "It is not the data set's archive; delete it."
        )
    target = os.path.join(directory, *parts)
    if member.isdir():
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    content = archive.extractfile(member)
    assert content is not None, "bug: a plain file has content"
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file)
