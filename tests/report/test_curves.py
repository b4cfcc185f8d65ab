"""Curves: how they are collected, grouped and thinned, and their axes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorpack_lite.report.curves import collect_curves, group_by_statistic, thin
from tensorpack_lite.report.scales import choose_log, format_number, linear_scale, log_scale


class TestThin:
    @pytest.mark.parametrize("length", [0, 1, 5, 2000, 2001, 2002, 9999, 10000, 1000003])
    def test_number(self, length):
        """At most 2000 points are left, in order and without repetition, with the first and the last one."""
        kept = thin(np.random.RandomState(1).rand(length), 2000)
        assert min(length, 2000) >= len(kept)
        assert np.all(np.diff(kept) > 0)
        assert length == 0 or (0, length - 1) == (kept[0], kept[-1])
        assert length > 2000 or length == len(kept)

    @pytest.mark.parametrize("limit", [5, 100, 2000])
    def test_spikes(self, limit):
        """The extremes of each stretch that is as long as two pieces are kept, wherever a spike is."""
        random = np.random.RandomState(limit)
        values = random.rand(20011)
        piece = -(-len(values) // ((limit - 2) // 3))
        spikes = random.choice(len(values), 30, replace=False)
        values[spikes] = 10.0 * np.where(np.arange(30) % 2, 1, -1) * (1 + np.arange(30))
        kept = thin(values, limit)
        assert (values.min(), values.max()) == (values[kept].min(), values[kept].max())
        for start in range(0, len(values) - 2 * piece, piece):
            inside = kept[(kept >= start) & (kept < start + 2 * piece)]
            stretch = values[start + piece : start + 2 * piece]
            assert values[inside].max() >= stretch.max()
            assert values[inside].min() <= stretch.min()

    def test_not_finite(self):
        """A single NaN or infinity is kept, and does not hide an extreme value in its piece."""
        values = np.ones(10000)
        values[[1234, 7000]] = np.nan, np.inf
        values[[1235, 7001]] = 5.0, -5.0
        assert {1234, 1235, 7000, 7001} <= set(thin(values, 100))

    def test_nothing_finite(self):
        """A curve of NaN is thinned like any other."""
        assert 2 < len(thin(np.full(5000, np.nan), 100)) <= 100


def test_collect():
    """Curves have the points of all rows that have the counter; the first point that is not a number is returned."""
    rows = [
        {"cost": 1, "global_step": 10, "epoch_num": 1},
        {"cost": 2.5, "name": "text", "global_step": 20},
        {"cost": 7},
        {"cost": None, "global_step": 30},
        {"cost": "x", "global_step": 40},
    ]
    curves, wrong = collect_curves(rows)
    assert {"cost": [(10, 1), (20, 2.5)]} == curves
    assert {"name": (20, "text"), "cost": (30, None)} == wrong
    assert {"cost": [(1, 1)]} == collect_curves(rows[:1], "epoch_num")[0]


def test_groups():
    """Training and validation of a statistic share a plot; a plot of one scalar has its name."""
    names = ["error", "val_error", "train-loss", "validation/loss", "test_only"]
    assert {
        "error": ["error", "val_error"],
        "loss": ["train-loss", "validation/loss"],
        "test_only": ["test_only"],
    } == group_by_statistic(names)


class TestScales:
    def test_linear(self):
        """A linear scale covers the finite values, and its ticks are round numbers inside."""
        scale = linear_scale(np.array([0.0, np.nan, 9.0, np.inf]))
        assert (0.0, 9.0, [0.0, 2.0, 4.0, 6.0, 8.0]) == scale[:3]
        np.testing.assert_allclose([0, 0.5, 1, np.nan], scale.place(np.array([0, 4.5, 9, np.inf])))

    def test_log(self):
        """A logarithmic scale has a tick at each decade; values that are not positive have no place."""
        scale = log_scale(np.array([0.001, 1.0, -5.0, 0.0]))
        np.testing.assert_allclose([0.001, 0.01, 0.1, 1.0], scale.ticks)
        places = scale.place(np.array([0.001, 1.0, 0.0, -1.0]))
        np.testing.assert_allclose(1.0, places[0] + places[1])
        assert all(math.isnan(place) for place in places[2:])
        assert log_scale(np.array([0.0, -1.0, np.nan])) is None

    @pytest.mark.parametrize("values", [[], [0.0], [3.0] * 4, [1e308, -1e308], [5e-324, 1e-320], [np.nan], [-1e-30]])
    def test_extremes(self, values):
        """Constants, the largest and the smallest numbers, and no numbers at all have a scale of finite size."""
        scales = [linear_scale(np.array(values), 0.04), log_scale(np.array(values))]
        for scale in [scale for scale in scales if scale is not None]:
            assert math.isfinite(scale.high - scale.low)
            assert scale.low < scale.high
            assert len(scale.ticks) < 12

    def test_choice(self):
        """A scale is logarithmic if one value is far above the median and all are positive."""
        falling = np.array([100.0, 1.0, 0.9, 0.8])
        assert choose_log(falling)
        assert not choose_log(falling - 0.8)
        assert not choose_log(np.array([0.9, 0.95, 0.99]))
        assert not choose_log(np.array([np.nan]))

    def test_numbers(self):
        """Numbers have four digits; large counts have separators."""
        shown = [format_number(value) for value in (0.99441, 12000.0, 123456.7, 3e8, float("nan"), 1e-7)]
        assert ["0.9944", "12,000", "123,457", "3e+08", "nan", "1e-07"] == shown
