"""
What all serializers do: run through a DataFlow once, and write a file that is complete or absent.

In:  a DataFlow, a path.
Out: datapoints with a progress bar; a temporary path to write to.
"""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from typing import Any, Iterator

from ...utils import logger
from ...utils.errors import type_error
from ...utils.utils import get_tqdm
from ..base import DataFlow, Datapoint

__all__ = ["known_length", "one_pass", "require_saveable", "written_aside"]


@contextmanager
def written_aside(who: str, path: str) -> Iterator[str]:
    """
    Give a temporary path to write to; the file gets its name when the body ends well, and vanishes otherwise.

    Args:
        who: the class that writes, for messages.
        path: of the file.

    Yields:
        The temporary path, in the same directory.

    Raises:
        FileExistsError: the file is there already.
        FileNotFoundError: its directory is not.
    """
    target = os.fspath(path)
    if os.path.lexists(target):
        raise FileExistsError(f"{who}: {target} is there already. Remove it, or choose another path.")
    if not os.path.isdir(os.path.dirname(target) or "."):
        raise FileNotFoundError(f"{who}: there is no directory {os.path.dirname(target)}. Make it first.")
    temporary = f"{target}.{uuid.uuid4().hex}.part"
    try:
        yield temporary
        _flush_to_disk(temporary)
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    logger.info(f"{who}: wrote {target}, {os.path.getsize(target)} bytes.")


def require_saveable(who: str, df: Any) -> None:
    """Refuse what is not a DataFlow: TypeError."""
    if not isinstance(df, DataFlow):
        raise type_error(f"{who}.save", "a DataFlow", df, "Wrap the data first: DataFromList(data).")


def known_length(df: DataFlow) -> int:
    """Tell the length of a DataFlow, or 0 where nobody knows it."""
    try:
        return len(df)
    except NotImplementedError:
        return 0


def one_pass(df: DataFlow) -> Iterator[Datapoint]:
    """Reset a DataFlow and run through it, with a progress bar."""
    df.reset_state()
    with get_tqdm(total=known_length(df) or None) as bar:
        for datapoint in df:
            yield datapoint
            bar.update()


def _flush_to_disk(path: str) -> None:
    """Wait until the content is on the disk, so that no crash leaves the name without it."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
