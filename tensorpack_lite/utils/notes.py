"""
The file `notes.jsonl` in the directory of a training: what the training says of itself.

Each line is a JSON object with `kind` (`speed`, `lint`, `hang`, `nan`, `spike`, `gpu`, `rehearsal`), `time` (ISO
8601), `text`, which is what the log says, and values that depend on the kind. A line is written when it is known, so
the notes of a training that is killed are complete.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from . import logger

FILENAME = "notes.jsonl"


def write_note(kind: str, text: str, **values: Any) -> None:
    """
    Append a note to the file in the logger's directory. Without a directory, do nothing. An error is logged.

    Args:
        kind: the part of the library that wrote it.
        text: one or more sentences for people.
        values: JSON values.
    """
    directory = logger.get_logger_dir()
    if directory is None:
        return
    note = {"kind": kind, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "text": text, **values}
    path = os.path.join(directory, FILENAME)
    try:
        # one write, so that notes of several threads do not mix
        with open(path, "ab", buffering=0) as file:
            file.write(json.dumps(note).encode() + b"\n")
    except OSError as error:
        logger.error(f"Cannot write '{path}': {error}")


def read_notes(directory: str) -> list[dict[str, Any]]:
    """
    Read the notes of a training.

    Args:
        directory: the logger's directory.

    Returns:
        The notes in the order in which they were written; none if there is no file. Lines that are not notes are left
        out, because a machine that fails may leave a broken last line.

    Raises:
        OSError: the file cannot be read.
    """
    path = os.path.join(directory, FILENAME)
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        notes = (_parse(line) for line in file)
        return [note for note in notes if note is not None]


def _parse(line: str) -> dict[str, Any] | None:
    try:
        note = json.loads(line)
    except ValueError:
        return None
    return note if isinstance(note, dict) and {"kind", "time", "text"} <= set(note) else None
