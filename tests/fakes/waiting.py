"""Waiting for what another thread or process does."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable


def wait_until(condition: Callable[[], Any], seconds: float = 60) -> None:
    """Wait until something is true; fail if it does not become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.005)
