"""
JSON arrays of flat objects, the format of `stats.json`.

JSON has no NaN and no infinity. As in the JSON format of protocol buffers, they are the strings "NaN", "Infinity" and
"-Infinity", which `float` accepts.
"""

from __future__ import annotations

import json
import math
from typing import Any, Mapping

from .errors import parsing

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode_json_row(row: Mapping[str, Any]) -> str:
    """Return an object of numbers and strings as JSON."""
    return json.dumps({name: _encoded(value) for name, value in row.items()}, allow_nan=False)


def _encoded(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def with_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object that was read, with numbers in place of "NaN", "Infinity" and "-Infinity"."""
    return {name: _NOT_FINITE.get(value, value) if isinstance(value, str) else value for name, value in row.items()}


def read_json_rows(path: str) -> list[dict[str, Any]]:
    """
    Read a file that holds a JSON array of objects.

    Args:
        path: the file.

    Returns:
        The objects. Files of earlier versions, with NaN and Infinity outside of strings, are read, too.

    Raises:
        DamagedFileError: the file is not a JSON array of objects.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(path, "the stats.json of a training", "Move it away, or restore it."):
        rows = json.loads(file.read().decode("utf-8"))
        if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise ValueError("it does not hold a list of objects")
    return [with_numbers(row) for row in rows]
