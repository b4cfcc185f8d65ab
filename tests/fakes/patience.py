"""Tests that measure time, on machines that have other work."""

from __future__ import annotations

import functools

__all__ = ["patiently"]


def patiently(test):
    """Try a test three times at most: any single measurement can be disturbed, three in a row mean something."""

    @functools.wraps(test)
    def patient(*args, **kwargs):
        for _ in range(2):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                continue
        return test(*args, **kwargs)

    return patient
