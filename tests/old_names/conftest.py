"""A process in which old names work."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tf1_behavior


@pytest.fixture
def accepted(monkeypatch):
    """Accept old names in this process, whose TensorFlow keeps its behavior."""
    monkeypatch.setenv("TENSORPACK_LITE_RUN", "1")
    monkeypatch.setattr(tf1_behavior, "prepare_tf1", lambda: None)
