"""Tests for the measurement of memory growth."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from fakes.patience import patiently

from tensorpack_lite.diagnostics.data_check.memory_growth import Growth, measure_growth


def chunks(kept):
    """Yield a megabyte every millisecond, and append it to `kept` if that is a list."""
    while True:
        time.sleep(0.001)
        chunk = np.ones(1 << 17)
        if kept is not None:
            kept.append(chunk)
        yield chunk


@patiently
def test_memory_that_is_kept():
    """Memory that is kept is measured with its approximate size."""
    growth = measure_growth(chunks([]), 0.5)
    assert growth.grows
    assert 1.049 * growth.count == pytest.approx(growth.grown_megabytes, rel=0.3)


@patiently
def test_memory_that_is_reused():
    """Memory that is reused does not count as growth."""
    growth = measure_growth(chunks(None), 0.3)
    assert not growth.grows


def test_too_few_datapoints():
    """Too few datapoints give no result."""
    assert measure_growth(itertools.repeat(0, 5), 0.1) is None


@pytest.mark.parametrize(
    ("megabytes", "grown", "grows"), [(100, 7, False), (100, 9, True), (1000, 19, False), (1000, 21, True)]
)
def test_noise(megabytes, grown, grows):
    """Growth up to 8 MB or 2 % is considered noise."""
    assert grows == Growth(100, megabytes, grown).grows
