"""contrib/tf_data.py: the elements of a tf.data pipeline as datapoints."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.positions import check_cuts

pytest.importorskip("tensorflow")

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.contrib.tf_data import DataFromTFDataset
from tensorpack_lite.dataflow import BatchData
from tensorpack_lite.input_source import TFDatasetInput


def pairs():
    """Return a Dataset of pairs."""
    return tf.data.Dataset.from_tensor_slices((np.arange(8).reshape(4, 2), np.arange(4)))


def shuffled():
    """Return a Dataset with the same random order in each pass."""
    return tf.data.Dataset.range(9).shuffle(5, seed=3, reshuffle_each_iteration=False)


class TestDataFromTFDataset:
    def test_elements(self):
        """A tuple becomes a list, a dict stays a dict, a tensor becomes a list of one; each pass is whole."""
        flow = DataFromTFDataset(pairs)
        flow.reset_state()
        for _ in range(2):
            assert [[[0, 1], 0], [[2, 3], 1], [[4, 5], 2], [[6, 7], 3]] == [[x.tolist(), y] for x, y in flow]
        assert [[0], [1]] == list(DataFromTFDataset(lambda: tf.data.Dataset.range(2)))
        by_name = DataFromTFDataset(lambda: tf.data.Dataset.from_tensors({"x": 1, "y": 2}))
        assert [{"x": 1, "y": 2}] == list(by_name)

    def test_the_graph_of_the_caller(self):
        """Neither the graph nor the session of the caller changes, also between two datapoints."""
        with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
            for _ in DataFromTFDataset(pairs):
                assert (graph, session) == (tf.get_default_graph(), tf.get_default_session())
            assert [] == graph.get_operations()

    @pytest.mark.slow
    def test_resume(self):
        """A pass is replayed after a cut, exactly if the order is fixed."""
        check_cuts(lambda: DataFromTFDataset(pairs), num=12)
        check_cuts(lambda: BatchData(DataFromTFDataset(shuffled), 2), num=12)

    def test_there_and_back(self):
        """TFDatasetInput.dataflow_to_dataset is the other direction."""
        types = [tf.int64, tf.int64]

        def there():
            return TFDatasetInput.dataflow_to_dataset(DataFromTFDataset(pairs), types)

        assert [0, 1, 2, 3] == [number for _, number in DataFromTFDataset(there)]

    def test_an_error_of_the_pipeline(self):
        """An error of tf.data is raised, and does not end the pass quietly."""
        flow = DataFromTFDataset(lambda: pairs().map(lambda x, y: tf.check_numerics(1 / tf.cast(y, "float32"), "")))
        with pytest.raises(tf.errors.InvalidArgumentError):
            list(flow)

    def test_mistakes(self):
        """A Dataset itself, other objects, and functions that return something else raise TypeError."""
        with tf.Graph().as_default(), pytest.raises(TypeError, match="got a Dataset, which belongs to one graph"):
            DataFromTFDataset(pairs())
        with pytest.raises(TypeError, match="make_dataset"):
            DataFromTFDataset([1])
        with pytest.raises(TypeError, match=r"result of make_dataset has the wrong type .expected a tf.data.Dataset"):
            list(DataFromTFDataset(lambda: [1]))
