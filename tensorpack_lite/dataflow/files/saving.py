"""
Helpers of all serializers: one pass over a DataFlow, and files that are complete or absent.

In:  a DataFlow and a path.
Out: datapoints with a progress bar, and a temporary path to write to.
"""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from typing import Iterator

from ...utils import logger
from ...utils.fs import flush_to_disk
from ...utils.utils import get_tqdm
from ..base import DataFlow, Datapoint, length_or_none


@contextmanager
def written_aside(who: str, path: str) -> Iterator[str]:
    """
    Yield a temporary path to write to. The file is renamed when the body succeeds, and removed otherwise.

    Args:
        who: the class that writes, for messages.
        path: final path of the file.

    Yields:
        The temporary path, in the same directory.

    Raises:
        FileExistsError: the file already exists.
        FileNotFoundError: its directory does not exist.
    """
    target = os.fspath(path)
    if os.path.lexists(target):
        raise FileExistsError(f"{who}: {target} already exists. Remove it, or choose another path.")
    if not os.path.isdir(os.path.dirname(target) or "."):
        raise FileNotFoundError(f"{who}: there is no directory {os.path.dirname(target)}. Create it first.")
    temporary = f"{target}.{uuid.uuid4().hex}.part"
    try:
        yield temporary
        flush_to_disk(temporary)  # otherwise a crash of the machine may leave the name without the content
        os.replace(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    logger.info(f"{who}: wrote {target}, {os.path.getsize(target)} bytes.")


def one_pass(df: DataFlow) -> Iterator[Datapoint]:
    """Reset a DataFlow and iterate one pass, with a progress bar."""
    df.reset_state()
    with get_tqdm(total=length_or_none(df)) as bar:
        for datapoint in df:
            yield datapoint
            bar.update()
