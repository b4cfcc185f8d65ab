"""FeedInput: a datapoint is fed at each run."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.inputs import Numbers, driven

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.base import DataFlow
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.feed import FeedInput

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


def test_wrong_kind():
    """A list instead of a DataFlow raises a TypeError with advice."""
    with pytest.raises(
        TypeError, match=r"FeedInput: ds .*expected DataFlow, got list\). Wrap it: FeedInput\(DataFromList"
    ):
        FeedInput([1])


def test_each_run_has_the_next_datapoint():
    """Each run takes the next datapoint, even a run that fetches nothing; the data is repeated."""
    with driven(FeedInput(Numbers(3)), SIGNATURE) as run:
        assert 0 == run.next()[0][0]
        run.hooked.run([])
        assert [2, 0, 1] == [run.next()[0][0] for _ in range(3)]


def test_finite_data_ends_in_stop_iteration():
    """With infinite=False, the end of the data raises StopIteration, and reset_state restarts the data."""
    source = FeedInput(Numbers(2), infinite=False)
    with driven(source, SIGNATURE) as run:
        for _ in range(2):
            assert [0, 1] == [run.next()[0][0] for _ in range(2)]
            with pytest.raises(StopIteration):
                run.next()
            source.reset_state()


def test_reset_once_and_iterated_when_training_begins():
    """The DataFlow is reset in setup_graph, and iterated only after before_train."""
    flow = Numbers()
    source = FeedInput(flow)
    callbacks = source.setup(SIGNATURE)
    assert (0, 0) == (flow.resets, flow.passes)
    for cb in callbacks:
        cb.setup_graph(None)
    assert (1, 0) == (flow.resets, flow.passes)
    for cb in callbacks:
        cb.before_train()
    callbacks[1].before_run(None)
    source.reset_state()
    assert (1, 1) == (flow.resets, flow.passes)


def test_works_without_a_reset():
    """next_feeds works without a call of reset_state."""
    source = FeedInput(Numbers())
    source.setup(SIGNATURE)
    (value,) = source.next_feeds().values()
    np.testing.assert_array_equal([0, 0], value)


def test_size():
    """The size is that of the DataFlow, infinite or not."""
    assert 5 == FeedInput(Numbers(5)).size()
    assert 5 == FeedInput(Numbers(5), infinite=False).size()


def test_dict_datapoints():
    """The components of a dict are fed by name."""
    flow = DataFromList([{"y": np.float32([2]), "x": np.float32([1])}], shuffle=False)
    with driven(FeedInput(flow), [*SIGNATURE, TensorSpec([None], tf.float32, "y")]) as run:
        assert [[1.0], [2.0]] == [value.tolist() for value in run.next()]


def test_iterator_is_closed_after_training():
    """The generator of the DataFlow is closed after training."""
    released = []

    class Holds(DataFlow):
        def __iter__(self):
            try:
                while True:
                    yield [np.zeros(1, "float32")]
            finally:
                released.append(True)

    with driven(FeedInput(Holds()), SIGNATURE) as run:
        run.next()
        assert [] == released
    assert [True] == released
