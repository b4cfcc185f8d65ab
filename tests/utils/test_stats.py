"""Statistics compared with NumPy and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.utils.stats import Accuracy, BinaryStatistics, OnlineMoments, RatioCounter, StatCounter


def fed(counter, *values):
    for value in values:
        counter.feed(value)
    return counter


class TestStatCounter:
    def test_numbers(self):
        """Count, sum, average and extremes of 4, 1, 7 are right."""
        counter = fed(StatCounter(), 4, 1, 7)

        assert (3, 12, 4, 7, 1) == (counter.count, counter.sum, counter.average, counter.max, counter.min)
        assert [4, 1, 7] == counter.samples()

    def test_reset(self):
        """`reset` removes all values."""
        counter = fed(StatCounter(), 4)
        counter.reset()

        assert (0, []) == (counter.count, counter.samples())

    @pytest.mark.parametrize("name", ["average", "sum", "max", "min"])
    def test_empty(self, name):
        """Statistics of no values raise a ValueError."""
        with pytest.raises(ValueError, match="StatCounter: no value was fed yet"):
            getattr(StatCounter(), name)

    def test_arrays(self):
        """Arrays are averaged and added elementwise."""
        counter = fed(StatCounter(), np.array([1.0, 2.0]), np.array([3.0, 6.0]))

        assert [2.0, 4.0] == counter.average.tolist()
        assert [4.0, 8.0] == counter.sum.tolist()


class TestRatioCounter:
    def test_ratio(self):
        """The ratio is count / total, and the total grows by one by default."""
        counter = RatioCounter()
        counter.feed(1)
        counter.feed(0)
        counter.feed(2, total=6)

        assert (3, 8, 0.375) == (counter.count, counter.total, counter.ratio)

    @pytest.mark.parametrize("number", [np.float32(1), np.uint8(1), np.array(1, "float16")], ids=repr)
    def test_numbers_of_numpy(self, number):
        """Counts of NumPy's small types do not round or wrap around."""
        counter = RatioCounter()
        counter.feed(2**24, 2**25)
        for _ in range(3):
            counter.feed(number, number)
        assert (2**24 + 3, 2**25 + 3) == (counter.count, counter.total)

    def test_reset(self):
        """Without values, the ratio, or accuracy, is 0; `reset` sets both counts to 0."""
        counter = Accuracy()
        assert 0 == counter.ratio
        counter.feed(3, 4)
        assert (0.75, 0.75) == (counter.accuracy, counter.ratio)
        counter.reset()

        assert (0, 0) == (counter.count, counter.total)


class TestBinaryStatistics:
    def test_numbers(self):
        """Three predicted positives, of which two are right, and four positive labels give the known statistics."""
        statistics = BinaryStatistics()
        statistics.feed(np.array([1, 1, 0]), np.array([1, 0, 1]))
        statistics.feed([1, 0, 0], [1, 1, 0])

        assert 2 / 3 == statistics.precision
        assert 1 - 2 / 3 == statistics.false_positive
        assert 0.5 == statistics.recall
        assert 0.5 == statistics.false_negative
        assert (4, 2, 3, 3, 2, 1) == (
            statistics.nr_pos,
            statistics.nr_neg,
            statistics.nr_pred_pos,
            statistics.nr_pred_neg,
            statistics.corr_pos,
            statistics.corr_neg,
        )

    def test_all_wrong(self):
        """If all predictions are wrong, precision and recall are 0 and the errors 1."""
        statistics = BinaryStatistics()
        statistics.feed([1, 0], [0, 1])

        assert (0, 0, 1, 1) == self.numbers(statistics)

    def test_empty_and_reset(self):
        """Without data, all four statistics are 0."""
        statistics = BinaryStatistics()
        empty = self.numbers(statistics)
        statistics.feed([1, 0], [0, 1])
        statistics.reset()

        assert (0, 0, 0, 0) == empty
        assert (0, 0, 0, 0) == self.numbers(statistics)

    def test_booleans(self):
        """False and True are 0 and 1."""
        statistics = BinaryStatistics()
        statistics.feed(np.array([True, False]), np.array([True, True]))

        assert (1, 0.5) == (statistics.precision, statistics.recall)

    def test_shapes_must_agree(self):
        """Different shapes raise a ValueError."""
        with pytest.raises(ValueError, match=r"different shapes \(got \(2,\) and \(3,\)\)"):
            BinaryStatistics().feed([1, 0], [1, 0, 1])

    @pytest.mark.parametrize(("pred", "label", "name"), [([0.3], [1], "pred"), ([1], [2], "label")])
    def test_values_must_be_binary(self, pred, label, name):
        """Other values than 0 and 1 raise a ValueError, and nothing is counted."""
        statistics = BinaryStatistics()
        with pytest.raises(ValueError, match=f"{name} has other values than 0 and 1"):
            statistics.feed(pred, label)

        assert 0 == statistics.nr_pos

    def numbers(self, statistics):
        return (
            statistics.precision,
            statistics.recall,
            statistics.false_positive,
            statistics.false_negative,
        )


class TestOnlineMoments:
    def test_equals_numpy(self):
        """Mean, sample variance and standard deviation equal NumPy's for numbers far from zero."""
        values = np.random.RandomState(0).randn(1000) + 1e6
        moments = fed(OnlineMoments(), *values)

        np.testing.assert_allclose(moments.mean, values.mean(), rtol=1e-12)
        np.testing.assert_allclose(moments.variance, values.var(ddof=1), rtol=1e-6)
        np.testing.assert_allclose(moments.std, values.std(ddof=1), rtol=1e-6)

    def test_arrays(self):
        """Arrays have elementwise moments and are not changed."""
        first, second = np.array([1.0, 5.0]), np.array([3.0, 5.0])
        moments = fed(OnlineMoments(), first, second)

        assert [2.0, 5.0] == moments.mean.tolist()
        assert [2.0, 0.0] == moments.variance.tolist()
        assert [1.0, 5.0] == first.tolist()

    @pytest.mark.parametrize("shape", [(), (2,)])
    def test_float32(self, shape):
        """Moments of float32 are computed in float64."""
        moments, values = OnlineMoments(), np.float32([2**24, 1, 1, 2])
        for value in values:
            moments.feed(np.full(shape, value, "float32") if shape else value)
        np.testing.assert_allclose(moments.mean, np.full(shape, values.mean(dtype="float64")), rtol=1e-15)
        np.testing.assert_allclose(moments.variance, np.full(shape, values.var(ddof=1, dtype="float64")), rtol=1e-12)

    def test_one_number_has_no_variance(self):
        """The variance of one number raises a ValueError."""
        with pytest.raises(ValueError, match=r"expected at least 2, got 1"):
            fed(OnlineMoments(), 3).variance  # noqa: B018
