"""Reader of a JSON array of objects, which is what `stats.json` is."""

from __future__ import annotations

import json
from typing import Any

from .errors import parsing

__all__ = ["read_json_rows"]


def read_json_rows(path: str) -> list[dict[str, Any]]:
    """
    Read a file that holds a JSON array of objects.

    Args:
        path: of the file.

    Returns:
        The objects.

    Raises:
        DamagedFileError: the file is not JSON, or holds something else.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(
        path, "the stats.json of a training", "Move it away, or restore it."
    ):
        rows = json.loads(file.read().decode("utf-8"))
        if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise ValueError("it does not hold a list of objects")
    return rows
