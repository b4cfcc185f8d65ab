"""Where datapoints come from."""

from __future__ import annotations

import queue

import numpy as np
import pytest

from tensorpack_lite.dataflow.base import NotResetError
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import (
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DataFromQueue,
    FakeData,
)
from tensorpack_lite.dataflow.repeat import RepeatedData


def reset(flow):
    """The DataFlow, ready to iterate."""
    flow.reset_state()
    return flow


class TestFakeData:
    def test_shapes_dtypes_and_size(self):
        """One component for each shape, float32 unless said otherwise."""
        datapoints = list(reset(FakeData([[2, 3], [4]], size=5)))
        assert 5 == len(datapoints)
        assert [((2, 3), np.float32), ((4,), np.float32)] == [(c.shape, c.dtype) for c in datapoints[0]]

    def test_dtype_and_domain_of_each(self):
        """Lists give one for each component; values lie in [low, high)."""
        flow = reset(FakeData([[100], [100]], 3, dtype=["uint8", "float64"], domain=[(5, 8), (-1, 0)]))
        small, negative = next(iter(flow))
        assert np.uint8 == small.dtype
        assert {5, 6, 7} == set(small.tolist())
        assert np.float64 == negative.dtype
        assert -1 <= negative.min() <= negative.max() < 0

    def test_values_are_uniform(self):
        """Mean and variance of a uniform distribution on [2, 4)."""
        (values,) = next(iter(reset(FakeData([[100000]], dtype="float64", domain=(2, 4)))))
        assert 3 == pytest.approx(values.mean(), abs=0.02)
        assert 4 / 12 == pytest.approx(values.var(), abs=0.01)

    def test_scalar_shape(self):
        """The shape [] is a scalar of the dtype."""
        (value,) = next(iter(reset(FakeData([[]], dtype="int32", domain=(3, 4)))))
        assert ((), np.int32, 3) == (np.shape(value), value.dtype, value)

    def test_random(self):
        """Each datapoint is drawn anew."""
        one, other = reset(FakeData([[50]], size=2))
        assert not np.array_equal(one[0], other[0])

    def test_not_random(self):
        """The same arrays in lists of their own."""
        one, other = reset(FakeData([[50]], size=2, random=False))
        assert one[0] is other[0]
        assert one is not other

    @pytest.mark.parametrize("random", [True, False])
    def test_needs_reset(self, random):
        """Also when the datapoints do not change."""
        with pytest.raises(NotResetError, match="FakeData"):
            next(iter(FakeData([[1]], random=random)))

    @pytest.mark.parametrize("wrong", [{"dtype": ["int32"]}, {"domain": [(0, 1)]}])
    def test_lists_of_another_length(self, wrong):
        """Refused, and the argument is named."""
        with pytest.raises(ValueError, match=f"FakeData: {next(iter(wrong))} has 1 entries for 2 shapes"):
            FakeData([[1], [2]], **wrong)


class TestDataFromQueue:
    def test_it_yields_what_is_put(self):
        """In the queue's order, without end."""
        tickets = queue.Queue()
        for k in range(4):
            tickets.put([k])
        iterator = iter(DataFromQueue(tickets))
        assert [[0], [1], [2], [3]] == [next(iterator) for _ in range(4)]

    def test_it_has_no_length_and_can_be_batched(self):
        """As the A3C example does."""
        tickets = queue.Queue()
        for k in range(2):
            tickets.put([k])
        batches = BatchData(DataFromQueue(tickets), 2)
        with pytest.raises(NotImplementedError, match="DataFromQueue: has no length"):
            len(batches)
        assert [0, 1] == next(iter(batches))[0].tolist()

    def test_no_queue(self):
        """A list is no queue."""
        with pytest.raises(TypeError, match="DataFromQueue: takes a queue"):
            DataFromQueue([1])


class TestDataFromList:
    def test_in_order(self):
        """The stored objects themselves, without a reset."""
        stored = [[1], [2], [3]]
        yielded = list(DataFromList(stored, shuffle=False))
        assert stored == yielded
        assert all(a is b for a, b in zip(stored, yielded))

    def test_shuffled(self):
        """All of them, in a new order each pass."""
        flow = reset(DataFromList([[k] for k in range(100)]))
        first, second = list(flow), list(flow)
        assert first != second
        assert sorted(first) == sorted(second) == [[k] for k in range(100)]

    def test_the_list_itself_stays_in_order(self):
        """Shuffling does not touch it."""
        stored = [[k] for k in range(100)]
        list(reset(DataFromList(stored)))
        assert [[k] for k in range(100)] == stored

    def test_rows_of_an_array(self):
        """Any sequence will do."""
        flow = reset(DataFromList(np.arange(6).reshape(3, 2)))
        assert [[0, 1], [2, 3], [4, 5]] == sorted(row.tolist() for row in flow)

    def test_a_generator_is_refused(self):
        """The sentence names the class to use."""
        with pytest.raises(
            TypeError, match=r"DataFromList: takes a sequence.*got generator. Use DataFromGenerator"
        ):
            DataFromList(k for k in range(3))

    def test_shuffling_needs_reset(self):
        """Never the global random numbers."""
        with pytest.raises(NotResetError, match="DataFromList"):
            list(DataFromList([[1]]))


def three():
    """A generator function."""
    yield [1]
    yield [2]
    yield [3]


class TestDataFromGenerator:
    def test_a_function_is_called_for_each_pass(self):
        """So it can be iterated again."""
        flow = DataFromGenerator(three)
        assert [[1], [2], [3]] == list(flow) == list(flow)

    def test_an_iterable(self):
        """With a length, if it has one."""
        flow = DataFromGenerator([[1], [2]])
        assert [[1], [2]] == list(flow)
        assert 2 == len(flow)

    def test_a_running_generator(self):
        """It lasts for one pass."""
        flow = DataFromGenerator(three())
        assert [[1], [2], [3]] == list(flow)
        assert [] == list(flow)

    @pytest.mark.parametrize("gen", [three, three()])
    def test_no_length(self, gen):
        """NotImplementedError, not the TypeError of `len(gen)`."""
        with pytest.raises(NotImplementedError, match="DataFromGenerator: has no length"):
            len(DataFromGenerator(gen))

    def test_wrappers_can_be_built_on_it(self):
        """Those that ask for the length go on without it."""
        assert [[1, 2]] == [dp[0].tolist() for dp in BatchData(DataFromGenerator(three), 2)]
        with pytest.raises(NotImplementedError):
            len(RepeatedData(DataFromGenerator(three), 2))

    def test_neither_function_nor_iterable(self):
        """A number is refused."""
        with pytest.raises(TypeError, match="DataFromGenerator: takes a function that returns an iterable"):
            DataFromGenerator(3)

    def test_an_error_in_the_generator_reaches_the_user(self):
        """The exception itself."""

        def broken():
            yield [1]
            raise KeyError("the user's")

        with pytest.raises(KeyError, match="the user's"):
            list(DataFromGenerator(broken))


class TestDataFromIterable:
    def test_again_and_again(self):
        """In the order of the iterable, with its length."""
        flow = DataFromIterable(([1], [2]))
        assert [[1], [2]] == list(flow) == list(flow)
        assert 2 == len(flow)

    def test_no_length(self):
        """NotImplementedError when the iterable has none."""
        with pytest.raises(NotImplementedError, match="DataFromIterable: has no length; its map"):
            len(DataFromIterable(map(list, [])))

    def test_not_iterable(self):
        """A number is refused."""
        with pytest.raises(TypeError, match="DataFromIterable: takes an iterable"):
            DataFromIterable(3)
