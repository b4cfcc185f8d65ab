"""Tests of batching."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from fakes.reading import flow_of

from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.batch import BatchData, BatchDataByShape
from tensorpack_lite.dataflow.raw import DataFromGenerator

aggregate = BatchData.aggregate_batch


def column(*values, **kwargs):
    """Stack values as the only component of their datapoints."""
    return aggregate([[value] for value in values], **kwargs)[0]


class TestBatchData:
    @pytest.mark.parametrize(
        ("num", "batch_size", "remainder", "sizes"),
        [
            (10, 5, False, [5, 5]),
            (10, 5, True, [5, 5]),
            (10, 4, False, [4, 4]),
            (10, 4, True, [4, 4, 2]),
            (3, 4, True, [3]),
            (4, 4, False, [4]),
            (0, 4, True, []),
        ],
    )
    def test_sizes_and_length(self, num, batch_size, remainder, sizes):
        """The remainder of a pass is dropped or kept, and `len` counts accordingly."""
        flow = BatchData(flow_of([[k] for k in range(num)]), batch_size, remainder=remainder)
        assert sizes == [len(batch[0]) for batch in flow]
        assert len(sizes) == len(flow)

    def test_the_remainder_is_not_carried_over(self):
        """Datapoints that are left at the end of a pass are not carried over to the next one."""
        flow = BatchData(flow_of([[0], [1], [2]]), 2)
        assert [[0, 1]] == [batch[0].tolist() for batch in flow] == [batch[0].tolist() for batch in flow]

    def test_a_new_first_axis(self):
        """A component of shape [2, 3] becomes [B, 2, 3], as with np.stack."""
        arrays = [np.random.RandomState(k).rand(2, 3) for k in range(4)]
        (batch,) = BatchData(flow_of([[a, k] for k, a in enumerate(arrays)]), 4)
        np.testing.assert_array_equal(np.stack(arrays), batch[0])
        np.testing.assert_array_equal([0, 1, 2, 3], batch[1])

    @pytest.mark.parametrize(
        ("datapoint", "batched"),
        [([1, 2.0], list), ((1, 2.0), list), ({"a": 1, "b": 2.0}, dict)],
    )
    def test_forms(self, datapoint, batched):
        """Lists and tuples become lists; dicts stay dicts."""
        (batch,) = BatchData(flow_of([datapoint] * 2), 2)
        assert batched is type(batch)
        assert 2 == len(batch)

    def test_use_list(self):
        """With `use_list`, components become lists of the original values, which may differ in shape."""
        arrays = [np.zeros(1), np.zeros(2)]
        (batch,) = BatchData(flow_of([[a] for a in arrays]), 2, use_list=True)
        assert arrays[0] is batch[0][0]
        assert arrays[1] is batch[0][1]

    def test_the_batch_is_a_copy(self):
        """Writing to a batch does not change the data."""
        array = np.zeros(2)
        (batch,) = BatchData(flow_of([[array]]), 1)
        batch[0][:] = 7
        assert [0, 0] == array.tolist()

    def test_datapoints_are_released(self):
        """BatchData keeps neither a batch nor its datapoints: workers wait for the shared memory in which they lie."""
        released = []

        def arrays():
            for number in range(5):
                array = np.array([number])
                weakref.finalize(array, released.append, number)
                yield [array]
                del array

        batches = iter(BatchData(DataFromGenerator(arrays), 2))
        weakref.finalize(next(batches)[0], released.append, "batch")
        assert [0, "batch"] == released  # the source keeps the last datapoint

    def test_it_stops_pulling_when_the_batch_is_full(self):
        """No more datapoints are pulled than the batch needs."""
        pulled = []

        def counting():
            for k in range(10):
                pulled.append(k)
                yield [k]

        next(iter(BatchData(DataFromGenerator(counting), 3)))
        assert [0, 1, 2] == pulled

    def test_only_not_implemented_error_means_no_length(self):
        """An error in a user's `__len__` is not hidden."""

        class Broken(DataFlow):
            def __iter__(self):
                yield [1]

            def __len__(self):
                raise KeyError("the user's")

        with pytest.raises(KeyError, match="the user's"):
            BatchData(Broken(), 1)


class TestTypes:
    @pytest.mark.parametrize(
        ("value", "dtype"),
        [
            (1, "int32"),
            (1.5, "float32"),
            (True, "bool"),
            (np.float64(1.0), "float64"),
            (np.float16(1.0), "float16"),
            (np.uint8(3), "uint8"),
            (np.int64(3), "int64"),
            (np.bool_(True), "bool"),
            (np.zeros((2,), "uint8"), "uint8"),
            (np.zeros((), "float32"), "float32"),
            (1 + 2j, None),
            (np.complex64(1), "complex64"),
            ("ab", "<U2"),
            (b"ab", "O"),
            (np.array(["x", "yz"]), "<U2"),
            (np.array([None, "x"], dtype=object), "O"),
            (np.datetime64("2020-01-01"), "<M8[D]"),
        ],
    )
    def test_the_first_datapoint_decides(self, value, dtype):
        """Python numbers become 32-bit types; all other values keep their dtype."""
        if dtype is None:
            with pytest.raises(TypeError, match="component 0 is a complex, which cannot be stacked"):
                column(value, value)
        else:
            assert np.dtype(dtype) == column(value, value).dtype
            assert (2, *np.shape(value)) == column(value, value).shape

    def test_bytes_are_not_cut_off(self):
        """Trailing zeros of bytes are kept, which NumPy's bytes dtype would drop."""
        assert [b"a\0", b"\xff\0\0"] == column(b"a\0", b"\xff\0\0").tolist()

    def test_texts_of_several_lengths(self):
        """Texts of different lengths are stacked without truncation."""
        assert ["a", "abc"] == column("a", "abc").tolist()
        assert ["a", "abc"] == column(np.array("a"), np.array("abc")).tolist()

    def test_values_that_fit_are_cast(self):
        """Later values are cast to the dtype of the first one if they fit."""
        assert ("uint8", [1, 2]) == (column(np.uint8(1), 2).dtype.name, column(np.uint8(1), 2).tolist())
        assert ("int32", [1, 2]) == (column(1, 2.0).dtype.name, column(1, 2.0).tolist())
        assert "float32" == column(np.float32(1), np.float64(0.1)).dtype.name
        assert "float32" == column(np.float32(1), 3).dtype.name
        assert "complex64" == column(np.complex64(1), 2.5).dtype.name

    @pytest.mark.parametrize(
        "values",
        [
            (1, 2.5),
            (1, 2**40),
            (np.uint8(1), 300),
            (np.uint8(1), -1),
            (True, 2),
            (1, float("nan")),
            (1.0, 1j),
            (1, "a"),
            ("a", 1),
            (b"a", "a"),
            (1, None),
            (np.array(["x"]), np.array([1])),
        ],
    )
    def test_values_that_do_not_fit(self, values):
        """Values that do not fit the dtype of the first one raise ValueError, which names the types."""
        with pytest.raises(ValueError, match=r"BatchData: component 0 cannot be stacked: .*types \S+"):
            column(*values)

    def test_types_without_an_array(self):
        """A list as a component raises TypeError, which suggests `use_list`."""
        with pytest.raises(TypeError, match=r"component 'box' is a list.*use_list=True"):
            aggregate([{"box": [1, 2]}])

    def test_tensors_of_other_libraries(self):
        """An object with a dtype attribute that can be converted to an array, such as a tensor, is stacked."""

        class Tensor:
            dtype = object()  # not a NumPy dtype

            def __array__(self, dtype=None, copy=None):
                return np.ones(3, dtype or np.float32)

        assert ((2, 3), np.float32) == (column(Tensor(), Tensor()).shape, column(Tensor(), Tensor()).dtype)


class TestWhatDoesNotFit:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ((28, 28), (28, 27)),
            ((28, 28), (27, 28)),
            ((3,), ()),
            ((), (3,)),
            ((2, 3), (2, 3, 1)),
            ((2, 3), (3,)),
            ((1,), (0,)),
        ],
    )
    def test_shapes_are_named(self, one, other):
        """Different shapes raise ValueError, which names the component, the shapes and a remedy."""
        with pytest.raises(
            ValueError, match=r"component 1 cannot be stacked: shapes .*; types .*BatchDataByShape"
        ) as info:
            aggregate([[0, np.zeros(one)], [0, np.zeros(other)]])
        assert str(one) in str(info.value)
        assert str(other) in str(info.value)

    @pytest.mark.parametrize(
        ("datapoints", "text"),
        [
            (
                [{"image": np.zeros(1)}, {"image": np.zeros(2)}],
                r"component 'image' cannot be stacked.*\(1,\), \(2,\)",
            ),
            ([[1, 2], [1, 2, 3]], "the first has 2, another has 3"),
            (
                [{"a": 1}, {"a": 1, "b": 2}],
                r"the first has the keys \['a'\], another has the keys \['a', 'b'\]",
            ),
            ([{"a": 1}, [1]], "different types: dict, list"),
            ([np.zeros(3)], r"not a list, a tuple or a dict, got ndarray. Yield \[x\]"),
            ([], "data_holder is empty; expected at least one datapoint"),
        ],
    )
    def test_datapoints_of_different_forms(self, datapoints, text):
        """Datapoints that differ in form, and no datapoints, raise ValueError."""
        with pytest.raises(ValueError, match=text):
            aggregate(datapoints)

    def test_lists_and_tuples_together(self):
        """Lists and tuples may be mixed in a batch."""
        assert [1, 2] == aggregate([[1], (2,)])[0].tolist()


class TestBatchDataByShape:
    ONE, TWO = np.zeros(1), np.zeros(2)

    def test_datapoints_are_grouped(self):
        """A batch is yielded as soon as enough datapoints of one shape have arrived."""
        flow = BatchDataByShape(flow_of([[self.ONE], [self.TWO], [self.TWO], [self.ONE]]), 2, 0)
        assert [(2, 2), (2, 1)] == [batch[0].shape for batch in flow]

    def test_incomplete_groups_are_kept(self):
        """Incomplete groups are kept for the next pass: three datapoints make one batch, then two."""
        flow = BatchDataByShape(flow_of([[self.ONE]] * 3), 2, 0)
        flow.reset_state()
        assert [1, 2] == [len(list(iter(flow))) for _ in range(2)]

    def test_reset_discards_incomplete_groups(self):
        """A reset discards incomplete groups."""
        flow = BatchDataByShape(flow_of([[self.ONE]] * 3), 2, 0)
        list(iter(flow))
        flow.reset_state()
        assert 1 == len(list(iter(flow)))

    def test_errors_name_the_stage(self):
        """A batch that cannot be stacked raises ValueError with the name of the stage, and without advice for BatchData."""
        flow = BatchDataByShape(flow_of([[0, np.zeros(k)] for k in range(2)]), 2, 0)
        flow.reset_state()
        with pytest.raises(ValueError, match=r"^BatchDataByShape: component 1 cannot .* before BatchDataByShape\.$"):
            next(iter(flow))
