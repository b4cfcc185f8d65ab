"""Descriptions of the machine, the packages and the environment variables."""

from __future__ import annotations

import platform

import psutil

from tensorpack_lite.diagnostics.manifest.environment import (
    VARIABLES,
    describe_machine,
    describe_packages,
    describe_variables,
)


def test_packages(tmp_path, monkeypatch):
    """Distributions are found in the directories of sys.path by the names of their metadata; the first one counts."""
    for name in ("Foo_bar-1.0.dist-info", "old-2.3-py3.7.egg-info", "x.egg-info", "foo-bar-0.9.dist-info"):
        (tmp_path / ("first" if name[0] != "f" else "second") / name).mkdir(parents=True)
    path = [str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "none")]
    monkeypatch.setattr("sys.path", path)
    expected = {"python": platform.python_version(), "foo-bar": "1.0", "old": "2.3"}
    assert expected == describe_packages()


def test_installed_packages():
    """The versions are those that the packages report."""
    assert psutil.__version__ == describe_packages()["psutil"]


def test_variables(monkeypatch):
    """Only variables of the fixed list are contained."""
    monkeypatch.setenv("MY_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = describe_variables()
    assert "3" == found["OMP_NUM_THREADS"]
    assert set() == set(found) - set(VARIABLES)


def test_machine():
    """The machine has its host, memory and cores."""
    found = describe_machine()
    assert (platform.node(), psutil.virtual_memory().total) == (found["host"], found["memory"])
    assert 0 < found["usable cores"] <= found["cores"]
