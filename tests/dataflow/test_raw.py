"""Tests of DataFlows that read Python objects, and of FakeData."""

from __future__ import annotations

import queue

import numpy as np
import pytest
from fakes.reading import ready

from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import (
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    DataFromQueue,
    FakeData,
    how_to_wrap,
)


class TestFakeData:
    def test_shapes_dtypes_and_size(self):
        """There is one component for each shape, of type float32 by default."""
        datapoints = list(ready(FakeData([[2, 3], [4]], size=5)))
        assert 5 == len(datapoints)
        assert [((2, 3), np.float32), ((4,), np.float32)] == [(c.shape, c.dtype) for c in datapoints[0]]

    def test_dtype_and_domain_of_each(self):
        """Lists set the dtype and the domain of each component, and values lie in [low, high)."""
        flow = ready(FakeData([[100], [100]], 3, dtype=["uint8", "float64"], domain=[(5, 8), (-1, 0)]))
        small, negative = next(iter(flow))
        assert np.uint8 == small.dtype
        assert {5, 6, 7} == set(small.tolist())
        assert np.float64 == negative.dtype
        assert -1 <= negative.min() <= negative.max() < 0

    def test_scalar_shape(self):
        """The shape [] is a scalar with the given dtype."""
        (value,) = next(iter(ready(FakeData([[]], dtype="int32", domain=(3, 4)))))
        assert ((), np.int32, 3) == (np.shape(value), value.dtype, value)

    def test_random(self):
        """Each datapoint has new random numbers."""
        one, other = ready(FakeData([[50]], size=2))
        assert not np.array_equal(one[0], other[0])

    def test_not_random(self):
        """With `random=False`, datapoints are separate lists of the same arrays."""
        one, other = ready(FakeData([[50]], size=2, random=False))
        assert one[0] is other[0]
        assert one is not other

    @pytest.mark.parametrize("wrong", [{"dtype": ["int32"]}, {"domain": [(0, 1)]}])
    def test_lists_of_another_length(self, wrong):
        """A list of the wrong length raises ValueError, which names the argument."""
        with pytest.raises(ValueError, match=f"FakeData: {next(iter(wrong))} has 1 entries for 2 shapes"):
            FakeData([[1], [2]], **wrong)


class TestDataFromQueue:
    def test_it_has_no_length_and_can_be_batched(self):
        """A DataFromQueue has no length and can be batched, as in the A3C example."""
        tickets = queue.Queue()
        for k in range(2):
            tickets.put([k])
        batches = BatchData(DataFromQueue(tickets), 2)
        with pytest.raises(NotImplementedError, match="DataFromQueue: has no length"):
            len(batches)
        assert [0, 1] == next(iter(batches))[0].tolist()


class TestDataFromList:
    def test_the_list_itself_stays_in_order(self):
        """Shuffling does not change the list."""
        stored = [[k] for k in range(100)]
        list(ready(DataFromList(stored)))
        assert [[k] for k in range(100)] == stored

    def test_rows_of_an_array(self):
        """Any sequence is accepted, such as an array."""
        flow = ready(DataFromList(np.arange(6).reshape(3, 2)))
        assert [[0, 1], [2, 3], [4, 5]] == sorted(row.tolist() for row in flow)


def three():
    """Yield three datapoints."""
    yield [1]
    yield [2]
    yield [3]


class TestDataFromGenerator:
    def test_an_iterable(self):
        """An iterable is accepted, and its length is used."""
        flow = DataFromGenerator([[1], [2]])
        assert [[1], [2]] == list(flow)
        assert 2 == len(flow)

    def test_a_running_generator(self):
        """A running generator yields one pass; later passes are empty."""
        flow = DataFromGenerator(three())
        assert [[1], [2], [3]] == list(flow)
        assert [] == list(flow)

    @pytest.mark.parametrize("gen", [three, three()])
    def test_no_length(self, gen):
        """`len` raises NotImplementedError, not the TypeError of `len(gen)`."""
        with pytest.raises(NotImplementedError, match="DataFromGenerator: has no length"):
            len(DataFromGenerator(gen))


class TestDataFromIterable:
    def test_no_length(self):
        """`len` raises NotImplementedError if the iterable has no length."""
        with pytest.raises(NotImplementedError, match="DataFromIterable: has no length, because its map"):
            len(DataFromIterable(map(list, [])))


class Iterated:
    """An object that can only be iterated, such as a `DataLoader` of PyTorch, which has a length."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([[1], [2], [3]])


class TestHowToWrap:
    @pytest.mark.parametrize(
        ("data", "advice"),
        [
            ([[1], [2]], "Wrap it: DataFromList(data)."),
            (np.zeros([3, 2]), "Wrap it: DataFromList(data)."),
            (Iterated(), "Wrap it: DataFromIterable(data)."),
            (lambda: iter([]), "Wrap it: DataFromGenerator(data)."),
            (pytest, ""),
            ("a path", ""),
            (DataFromList, ""),
        ],
    )
    def test_the_class_fits(self, data, advice):
        """The advice names the DataFlow that accepts the data; there is none for an object that no DataFlow accepts."""
        assert advice == how_to_wrap(data)

    def test_a_table(self):
        """A table of pandas, which has columns, has its own DataFlow."""
        data = type("Data", (Iterated,), {"columns": None})()
        assert "Wrap it: contrib.table.DataFromTable(data)." == how_to_wrap(data)

    def test_a_dataset_of_tensorflow(self):
        """For a `tf.data.Dataset`, the advice is the input that takes it, before the DataFlow, which takes a function."""
        data = type("Data", (Iterated,), {"element_spec": None})()
        advice = how_to_wrap(data, "FeedInput({})")
        assert advice.startswith("For training, use data=TFDatasetInput(data). ")
        assert "FeedInput(contrib.tf_data.DataFromTFDataset(function)), where the function" in advice

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_arrays(self, kind):
        """Arrays of equal length are the arguments of Keras' `fit`; their rows become datapoints."""
        arrays = kind([np.zeros([3, 2]), np.zeros(3)])
        advice = "QueueInput(BatchData(DataFromList(list(zip(X, Y))), 32))"
        assert f"These are arrays, not datapoints: {advice}." == how_to_wrap(arrays, "QueueInput({})")

    def test_a_datapoint_of_arrays(self):
        """Arrays of different lengths are not columns."""
        assert "Wrap it: DataFromList(data)." == how_to_wrap([np.zeros(3), np.zeros(2)])
