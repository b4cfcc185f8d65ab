"""Does the memory grow."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from fakes.patience import patiently

from tensorpack_lite.dataflow.doctor.memory_growth import Growth, measure_growth


def chunks(kept):
    """A megabyte every millisecond; kept if there is a list for it."""
    while True:
        time.sleep(0.001)
        chunk = np.ones(1 << 17)
        if kept is not None:
            kept.append(chunk)
        yield chunk


@patiently
def test_what_is_kept_is_seen():
    """About its size."""
    growth = measure_growth(chunks([]), 0.5)
    assert growth.grows
    assert 1.049 * growth.count == pytest.approx(growth.grown_megabytes, rel=0.3)


@patiently
def test_what_is_dropped_is_not():
    """Memory that is used again is no growth."""
    growth = measure_growth(chunks(None), 0.3)
    assert not growth.grows


def test_too_few_datapoints():
    """Nothing is claimed."""
    assert measure_growth(itertools.repeat(0, 5), 0.1) is None


@pytest.mark.parametrize(
    ("megabytes", "grown", "grows"), [(100, 7, False), (100, 9, True), (1000, 19, False), (1000, 21, True)]
)
def test_noise(megabytes, grown, grows):
    """8 MB or two hundredths are let through."""
    assert grows == Growth(100, megabytes, grown).grows
