"""Files that are replaced as a whole, so that no reader finds half of one."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import Iterator


@contextmanager
def replacing(path: str) -> Iterator[str]:
    """
    Yield the path of a temporary file, which replaces a file when the body succeeds, and is removed otherwise.

    A process that is killed leaves the old file, and perhaps the temporary one, which the next call replaces.

    Args:
        path: the file.

    Yields:
        The path to write to, `<path>.tmp`.

    Raises:
        OSError: the file cannot be replaced.
    """
    temporary = f"{path}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with suppress(OSError):  # it exists only after an error
            os.remove(temporary)
