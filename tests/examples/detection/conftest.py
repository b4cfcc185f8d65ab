"""Fixtures for the tests of examples/detection: its modules, settings with two classes, and a few scenes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def load(load_example):
    """Return a function that imports a module of the example."""
    return lambda name: load_example(f"detection/{name}.py")


@pytest.fixture
def config(load):
    """The settings for scenes, with two classes."""
    return load("config").SCENES._replace(classes=("a", "b"), category_ids=(3, 7))


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """A folder with 12 training scenes and 4 test scenes."""
    sys.path.insert(0, str(EXAMPLES / "data"))
    try:
        from scenes import make_scenes
    finally:
        sys.path.pop(0)
    return Path(make_scenes(str(tmp_path_factory.mktemp("data") / "scenes"), 12, 4, 64))
