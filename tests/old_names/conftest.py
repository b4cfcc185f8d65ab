"""A process in which old names work."""

from __future__ import annotations

import sys

import pytest
from fakes.old_scripts import complete_for_old_scripts


@pytest.fixture
def accepted(monkeypatch):
    """Complete the modules of this process for old scripts until the end of the test. TensorFlow keeps its behavior."""
    names = sorted(name for name in sys.modules if name.partition(".")[0] == "tensorpack_lite")
    complete_for_old_scripts(monkeypatch, *[sys.modules[name] for name in names])
