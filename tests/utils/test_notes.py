"""The notes of a training."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils import logger, notes


@pytest.fixture
def directory(tmp_path):
    logger.set_logger_dir(str(tmp_path / "log"), action="d")
    return tmp_path / "log"


def test_notes_are_read_as_they_were_written(directory):
    """`read_notes` returns all notes in order, with their values."""
    notes.write_note("lint", "conv1/W:0 gets no gradient.", rule="G01")
    notes.write_note("speed", "Größe\n2", step=7)

    found = notes.read_notes(str(directory))
    assert [("lint", "conv1/W:0 gets no gradient."), ("speed", "Größe\n2")] == [
        (note["kind"], note["text"]) for note in found
    ]
    assert ("G01", 7) == (found[0]["rule"], found[1]["step"])


def test_damaged_lines_are_left_out(directory):
    """A line that a failing machine has cut is not a note."""
    notes.write_note("speed", "first")
    with open(directory / notes.FILENAME, "ab") as file:
        file.write(b'\x00\xff\n[1]\n{"kind": "speed"}\n{"kind": "sp')

    assert ["first"] == [note["text"] for note in notes.read_notes(str(directory))]


def test_no_file(tmp_path):
    """A directory without notes has none."""
    assert [] == notes.read_notes(str(tmp_path))


def test_no_directory(capsys):
    """Without a logger's directory, a note is dropped silently."""
    notes.write_note("speed", "text")

    assert ("", "") == capsys.readouterr()


def test_disk_error_is_logged(directory, capsys):
    """A note that cannot be written does not end training."""
    (directory / notes.FILENAME).mkdir()

    notes.write_note("speed", "text")
    assert "Cannot write" in capsys.readouterr().out
