"""OpenCV, where it is installed."""

from __future__ import annotations

import pytest


@pytest.fixture
def cv2():
    """The module; without it, the test is skipped."""
    return pytest.importorskip("cv2")
