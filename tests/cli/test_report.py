"""The command `report`: its output, its errors, and what it imports."""

from __future__ import annotations

import os
from pathlib import Path

from fakes.reports import Page, write_training

from tensorpack_lite.cli.main import main


def read(path):
    """Return the parsed report."""
    return Page(Path(path).read_text(encoding="utf-8"))


def test_one(tmp_path, capsys):
    """The report of one training is written to its directory; the output names the file and its size."""
    directory = write_training(tmp_path / "run")
    assert 0 == main(["report", directory])
    path = os.path.join(directory, "report.html")
    assert f"The report of {directory} is {path}, 0.0 MB.\n" == capsys.readouterr().out
    assert "train.py finished" in read(path).text


def test_two(tmp_path, monkeypatch):
    """The report of two training runs has their difference; it is written to the current directory."""
    monkeypatch.chdir(tmp_path)
    write_training(tmp_path / "a")
    write_training(tmp_path / "b", manifest={"seeds": {"fix_rng_seed": 8, "graph": None}})
    assert 0 == main(["report", "a", "b"])
    text = read("report.html").text
    assert "A is a, B is b. " in text
    assert "fix_rng_seed 7 in A, 8 in B" in text


def test_two_without_manifest(tmp_path):
    """If one of two training runs has no manifest, the page says why they are not compared, and has all else."""
    one, other = write_training(tmp_path / "a"), write_training(tmp_path / "b")
    os.remove(os.path.join(other, "manifest.json"))
    assert 0 == main(["report", one, other, "-o", str(tmp_path / "x.html")])
    assert f"The training runs cannot be compared: {other} has no manifest.json." in read(tmp_path / "x.html").text


def test_two_with_other_types(tmp_path):
    """If the manifest of one of two training runs has a part of another type, the page has the error, and all else."""
    one, other = write_training(tmp_path / "a"), write_training(tmp_path / "b", manifest={"packages": [1]})
    assert 0 == main(["report", one, other, "-o", str(tmp_path / "x.html")])
    assert "The training runs cannot be compared: the manifest or" in read(tmp_path / "x.html").text


def test_three(tmp_path, capsys):
    """Three training runs share the plots; -o names the file; a table of their groups is printed."""
    directories = [write_training(tmp_path / name, manifest={"hyperparameters": {"rate": name}}) for name in "abc"]
    assert 0 == main(["report", *directories, "-o", str(tmp_path / "x.html")])
    page = read(tmp_path / "x.html")
    assert ["a", "b", "c"] == [curve["label"] for curve in page.data["charts"][0]["curves"]]
    assert "Differences" not in page.text
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["a", "a", "1", "0.125", "0.5"] in table


def test_errors(tmp_path, capsys):
    """A directory that does not exist, or a file that cannot be written, is reported in one line."""
    assert 2 == main(["report", str(tmp_path / "nothing")])
    assert f"tensorpack-lite report: {tmp_path / 'nothing'} is not a directory." in capsys.readouterr().err
    assert 2 == main(["report", write_training(tmp_path / "run"), "-o", str(tmp_path / "no" / "x.html")])
    assert 1 == len(capsys.readouterr().err.splitlines())
