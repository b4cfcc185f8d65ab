"""Files that are replaced as a whole."""

from __future__ import annotations

import os

import pytest

from tensorpack_lite.utils.replacing import replacing


@pytest.fixture
def path(tmp_path):
    """A file with old content."""
    (tmp_path / "x.json").write_text("old")
    return str(tmp_path / "x.json")


def write(path, text, error=None):
    """Replace a file, and raise an error before the end."""
    with replacing(path) as temporary:
        with open(temporary, "w") as file:
            file.write(text)
        if error is not None:
            raise error


def test_replaced(path):
    """The file has the new content when the body ends, and no other file is left."""
    write(path, "new")
    with open(path) as file:
        assert "new" == file.read()
    assert ["x.json"] == os.listdir(os.path.dirname(path))


def test_an_error(path):
    """After an error, such as that of a full disk, the file has the old content, and no other file is left."""
    with pytest.raises(OSError, match="full"):
        write(path, "new", OSError("full"))
    with open(path) as file:
        assert "old" == file.read()
    assert ["x.json"] == os.listdir(os.path.dirname(path))
