"""The fixture for OpenCV."""

from __future__ import annotations

import pytest


@pytest.fixture
def cv2():
    """The module cv2. Without it, the test is skipped."""
    return pytest.importorskip("cv2")
