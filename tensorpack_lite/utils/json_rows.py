"""Reader of JSON arrays of objects, the format of `stats.json`."""

from __future__ import annotations

import json
from typing import Any

from .errors import parsing


def read_json_rows(path: str) -> list[dict[str, Any]]:
    """
    Read a file that holds a JSON array of objects.

    Args:
        path: the file.

    Returns:
        The objects.

    Raises:
        DamagedFileError: the file is not a JSON array of objects.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(
        path, "the stats.json of a training", "Move it away, or restore it."
    ):
        rows = json.loads(file.read().decode("utf-8"))
        if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise ValueError("it does not hold a list of objects")
    return rows
