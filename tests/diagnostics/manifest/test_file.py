"""Reading and writing `manifest.json`."""

from __future__ import annotations

import json
import os

import pytest

from tensorpack_lite.utils.errors import DamagedFileError
from tensorpack_lite.utils.manifest_file import read_manifest, write_manifest


@pytest.fixture
def path(tmp_path):
    """The path of a manifest."""
    return str(tmp_path / "manifest.json")


def test_round_trip(path):
    """A manifest is read as it was written, and no temporary file is left."""
    manifest = {"format": 1, "code": {"files": {"a.py": "x = '\u00e4'\n"}}}
    write_manifest(path, {"format": 1})
    write_manifest(path, manifest)
    assert manifest == read_manifest(path)
    assert ["manifest.json"] == os.listdir(os.path.dirname(path))


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b'{"format": 2}', b"3"])
def test_a_damaged_file(path, content):
    """The error of a damaged file names it."""
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(DamagedFileError, match="manifest.json cannot be read as the manifest of a training"):
        read_manifest(path)


def test_a_missing_file(path):
    """A missing file keeps its type of error."""
    with pytest.raises(FileNotFoundError):
        read_manifest(path)


def test_secrets(path, monkeypatch):
    """The value of an environment variable that may be a secret is replaced; the file stays valid JSON."""
    monkeypatch.setenv("MY_API_KEY", "12345678")
    write_manifest(path, {"format": 1, "x": ["--key=12345678", 123456789, "1234567"]})
    assert ["--key=<$MY_API_KEY>", 123456789, "1234567"] == read_manifest(path)["x"]


def test_a_failed_write(path):
    """A failed write leaves the old file."""
    write_manifest(path, {"format": 1})
    os.mkdir(f"{path}.tmp")
    with pytest.raises(OSError, match="tmp"):
        write_manifest(path, {"format": 1, "new": 1})
    with open(path) as file:
        assert {"format": 1} == json.load(file)
