"""Tests on a busy machine: a limit for what ends by itself, and a decorator for tests that measure time."""

from __future__ import annotations

import functools

__all__ = ["PATIENCE", "patiently"]

PATIENCE = 1800.0
"""Seconds after which a training of the tests of clusters counts as hanging, also on a machine whose cores are all busy."""


def patiently(test):
    """Run a test up to three times: a busy machine can disturb a single measurement."""

    @functools.wraps(test)
    def patient(*args, **kwargs):
        for _ in range(2):
            try:
                return test(*args, **kwargs)
            except AssertionError:
                continue
        return test(*args, **kwargs)

    return patient
