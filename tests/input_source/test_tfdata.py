"""TFDatasetInput."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from fakes.inputs import Numbers, driven

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlowTerminated
from tensorpack_lite.dataflow.raw import DataFromGenerator, DataFromList
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.loop.group import Callbacks

SIGNATURE = [TensorSpec([None], tf.float32, "x")]
PAIR = [TensorSpec([], tf.int64, "a"), TensorSpec([], tf.float32, "b")]


def numbers(num):
    return tf.data.Dataset.range(num)


def as_pair(n):
    return n, tf.cast(n, tf.float32) / 2


def check_two_passes(source, signature):
    """Check two passes of the numbers 0 and 1, each of which ends with OutOfRangeError."""
    with driven(source, signature) as run:
        for _ in range(2):
            assert [0, 1] == [int(run.next()[0].ravel()[0]) for _ in range(2)]
            with pytest.raises(tf.errors.OutOfRangeError):
                run.next()
            with run.session.as_default():
                source.reset_state()


class TestDataset:
    @pytest.mark.parametrize(
        ("as_element", "num"),
        [(lambda n: n, 1), (lambda n: (n,), 1), (as_pair, 2), (lambda n: {"b": as_pair(n)[1], "a": n}, 2)],
    )
    def test_forms(self, as_element, num):
        """An element may be a tensor, a tuple or a dict, which is matched by name, whatever the order of its keys."""
        with driven(TFDatasetInput(numbers(3).map(as_element)), PAIR[:num]) as run:
            run.next()
            assert [1, 0.5][:num] == [float(value) for value in run.next()]

    def test_static_shapes(self):
        """The signature fills in shapes that the dataset does not know."""
        dataset = numbers(10).batch(2).map(lambda n: tf.placeholder_with_default(n, None))
        source = TFDatasetInput(dataset)
        source.setup([TensorSpec([2], tf.int64, "x")])
        assert [2] == source.get_input_tensors()[0].shape.as_list()

    def test_towers_take_different_elements(self):
        """Two towers together take each element of the iterator once."""

        class TwoTowers(TFDatasetInput):
            def _get_input_tensors(self):
                return [*super()._get_input_tensors(), *super()._get_input_tensors()]

        with driven(TwoTowers(numbers(6)), [PAIR[0]]) as run:
            assert list(range(6)) == sorted(int(n) for _ in range(3) for n in run.next())

    def test_a_sparse_tensor(self):
        """A SparseTensor arrives as one, with the dtype and shape that the signature states for the dense tensor."""
        rows = tf.sparse.from_dense if hasattr(tf.sparse, "from_dense") else tf.contrib.layers.dense_to_sparse
        dataset = tf.data.Dataset.from_tensor_slices([[0, 5, 0], [7, 0, 8]]).batch(1).map(rows)
        source = TFDatasetInput(dataset)
        source.setup([TensorSpec([None, 3], tf.int32, "x")])
        (sparse,) = source.get_input_tensors()
        assert isinstance(sparse, tf.SparseTensor)
        with tf.Session() as session, session.as_default():
            source.reset_state()
            dense = tf.sparse.to_dense(sparse)
            assert [[[0, 5, 0]], [[7, 0, 8]]] == [session.run(dense).tolist() for _ in range(2)]

    def test_the_end(self):
        """The end of the data is OutOfRangeError, and reset_state restarts the data."""
        check_two_passes(TFDatasetInput(numbers(2)), [PAIR[0]])

    def test_wrong_number(self):
        """The error for a wrong number of components names the inputs."""
        with pytest.raises(ValueError, match=r"components in the dataset is wrong \(expected 2: a, b, got 1\)"):
            TFDatasetInput(numbers(3)).setup(PAIR)

    def test_wrong_dtype(self):
        """A wrong dtype raises TypeError, without conversion."""
        with pytest.raises(
            TypeError,
            match=r"TFDatasetInput: component 0 'a' has the wrong dtype \(expected int32, got int64\)",
        ):
            TFDatasetInput(numbers(3)).setup([TensorSpec([], tf.int32, "a")])

    def test_wrong_shape(self):
        """A batch for an input of single values raises ValueError."""
        with pytest.raises(ValueError, match=r"component 0 'a' has the wrong shape .*Check how the dataset is batched"):
            TFDatasetInput(numbers(3).batch(2)).setup([PAIR[0]])

    def test_not_a_dataset(self):
        """A list raises TypeError."""
        with pytest.raises(
            TypeError, match=r"TFDatasetInput: dataset .*expected a tf.data.Dataset or a DataFlow, got list"
        ):
            TFDatasetInput([1])

    def test_size(self):
        """The size of a Dataset is unknown; that of a DataFlow is its length."""
        with pytest.raises(NotImplementedError):
            TFDatasetInput(numbers(3)).size()
        assert 3 == TFDatasetInput(DataFromList([[1], [2], [3]])).size()

    def test_reset_without_a_session(self):
        """reset_state without a default session raises RuntimeError."""
        source = TFDatasetInput(numbers(3))
        source.setup([PAIR[0]])
        with pytest.raises(RuntimeError, match="there is no default session"):
            source.reset_state()


class TestDataFlow:
    def test_reset_in_setup_and_not_repeated(self):
        """A DataFlow is not repeated; reset_state iterates again without resetting the DataFlow."""
        flow = Numbers(2)
        check_two_passes(TFDatasetInput(flow), SIGNATURE)
        assert 1 == flow.resets

    def test_dict_datapoints_and_conversion(self):
        """The datapoints of a DataFlow may be dicts, and are converted."""
        flow = DataFromList([{"b": 2, "a": np.int32(1)}], shuffle=False)
        with driven(TFDatasetInput(flow), PAIR) as run:
            assert [1, 2.0] == [float(value) for value in run.next()]

    def test_reset_state_clears_the_error(self):
        """After reset_state, the end of the data no longer raises the error of the last pass."""
        flow = Numbers(1, KeyError("planted"))
        source = TFDatasetInput(flow)
        with driven(source, SIGNATURE) as run:
            run.next()
            with pytest.raises(KeyError):
                run.next()
            flow.error = None
            with run.session.as_default():
                source.reset_state()
            run.next()
            with pytest.raises(tf.errors.OutOfRangeError):
                run.next()

    def test_terminated_is_the_end(self):
        """DataFlowTerminated ends the data without an error."""
        with driven(TFDatasetInput(Numbers(1, DataFlowTerminated())), SIGNATURE) as run:
            run.next()
            with pytest.raises(tf.errors.OutOfRangeError):
                run.next()

    def test_dataflow_to_dataset(self, sess):
        """dataflow_to_dataset resets the DataFlow and returns a Dataset."""
        flow = Numbers(3)
        dataset = TFDatasetInput.dataflow_to_dataset(flow, [tf.float32]).map(lambda x: x + 1)
        element = tf.data.make_one_shot_iterator(dataset).get_next()

        assert 1 == flow.resets
        np.testing.assert_array_equal([1, 1], sess.run(element))


def test_requests_after_the_end_of_training():
    """After after_train, a DataFlow ends, so closing the session does not wait for prefetching."""
    source = TFDatasetInput(Numbers(1000))
    callbacks = Callbacks(source.setup(SIGNATURE))
    tensors = source.get_input_tensors()
    callbacks.setup_graph(None)
    with tf.Session() as session:
        callbacks.before_train()
        session.run(tensors)
        callbacks.after_train()
        with pytest.raises(tf.errors.OutOfRangeError):
            for _ in range(1000):
                session.run(tensors)


@pytest.mark.slow
def test_the_end_of_training_while_the_dataflow_waits():
    """The end of training ends a run that waits for a DataFlow, so the session can be closed."""
    waits, may_end = threading.Event(), threading.Event()

    def generate():
        yield [np.zeros(2, "float32")]
        waits.set()
        may_end.wait()

    source = TFDatasetInput(DataFromGenerator(generate))
    callbacks = Callbacks(source.setup(SIGNATURE))
    tensors = source.get_input_tensors()
    callbacks.setup_graph(None)
    with tf.Session() as session:
        callbacks.before_train()
        session.run(tensors)
        ended = []

        def run():
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(tensors)
            ended.append(True)

        thread = threading.Thread(target=run)
        thread.start()
        waits.wait()
        callbacks.after_train()
        thread.join(60)
        assert [True] == ended
    may_end.set()
