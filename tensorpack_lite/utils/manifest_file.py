"""The file `manifest.json` in the directory of a training."""

from __future__ import annotations

import json
from typing import Any

from .errors import parsing
from .redaction import hide_secrets
from .replacing import replacing

FILENAME = "manifest.json"
FORMAT = 1


def read_manifest(path: str) -> dict[str, Any]:
    """
    Read a manifest.

    Args:
        path: the file.

    Raises:
        DamagedFileError: the file is not a manifest, or a newer version of the library wrote it.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file, parsing(path, "the manifest of a training", "Move it away, or restore it."):
        manifest = json.loads(file.read().decode("utf-8"))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ValueError(f'expected an object with "format": {FORMAT}')
    return manifest


def write_manifest(path: str, manifest: dict[str, Any]) -> None:
    """
    Write a manifest, or replace it atomically.

    Values of environment variables that may be secrets are replaced, wherever they occur: in arguments of the script, in
    its source, or in settings. See `redaction.hide_secrets`.

    Args:
        path: the file.
        manifest: JSON values.

    Raises:
        OSError: the file cannot be written.
    """
    text = json.dumps(hide_secrets(manifest), indent=1)
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text + "\n")
