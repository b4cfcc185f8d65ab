"""utils/redirection.py: the directories of a command that runs a script, and where checkpoints of the script are then."""

from __future__ import annotations

import os

import pytest

from tensorpack_lite.utils import redirection
from tensorpack_lite.utils.redirection import VARIABLE, find_redirected, redirect, redirect_log


@pytest.fixture
def used(tmp_path, monkeypatch):
    """Return the directory of a command."""
    monkeypatch.setattr(redirection._REDIRECTIONS, "used", {})
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_command(tmp_path, monkeypatch):
    """Without the variable, all paths stay."""
    monkeypatch.delenv(VARIABLE, raising=False)
    assert redirect_log("log") is None
    assert ("log", "log/model-1") == (redirect("log"), find_redirected("log/model-1"))


def test_a_log(used):
    """A checkpoint in the directory that the script has named for its log is found in that of the command."""
    assert str(used) == redirect_log("/x/log")
    (used / "model-3.index").touch()
    for name in ("model-3", "model-3.index"):
        assert str(used / name) == find_redirected(f"/x/log/{name}")
    assert "/x/log/model-4" == find_redirected("/x/log/model-4")
    assert "/x/logs/model-3" == find_redirected("/x/logs/model-3")


def test_a_directory(used):
    """A directory is found if it has a checkpoint."""
    redirect_log("/x/log")
    assert "/x/log" == find_redirected("/x/log")
    (used / "checkpoint").touch()
    assert [str(used), str(used / "checkpoint")] == list(map(find_redirected, ["/x/log", "/x/log/checkpoint"]))


def test_another_directory(used):
    """So is a checkpoint in another directory of the script, which is below that of the command."""
    directory = redirect("/x/best")
    assert directory.startswith(os.path.join(str(used), "elsewhere", ""))
    os.makedirs(directory)
    (used / os.path.relpath(directory, str(used)) / "min-cost.index").touch()
    assert os.path.join(directory, "min-cost") == find_redirected("/x/best/min-cost")


def test_inside(used):
    """A directory inside that of the command stays."""
    assert str(used / "sub") == redirect(str(used / "sub"))
