"""
The elements of a tf.data pipeline as datapoints, for stages that process data outside of the graph.

In:  a function that builds a `tf.data.Dataset`.
Out: the first DataFlow of a pipeline.

`input_source.TFDatasetInput` feeds a Dataset to the model without this detour, and a DataFlow to tf.data.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator

from ..compat import ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..compat.session import Session
from ..dataflow.base import DataFlow, Datapoint
from ..utils.checks import check_callable, check_type

__all__ = ["DataFromTFDataset"]


class DataFromTFDataset(DataFlow):
    """
    The elements of a tf.data pipeline, as NumPy arrays.

    Each pass builds the pipeline in a new graph and runs it in a session on the CPU. A dict stays a dict, a tuple
    becomes a list, and a single tensor a list of one. Exact resume replays a pass from its beginning, which is exact if
    every run of the pipeline yields the same elements: give each `shuffle` a seed and
    `reshuffle_each_iteration=False`.

    Length: unknown.
    Order: that of the pipeline.
    Process: runs in the current process. It can be pickled if `make_dataset` can.

    Args:
        make_dataset: a function without arguments that returns a new `tf.data.Dataset`. It is called in each pass.

    Raises:
        TypeError: `make_dataset` is not callable; in a pass: it does not return a `tf.data.Dataset`.

    Example:
        >>> DataFromTFDataset(lambda: tf.data.TFRecordDataset("train.tfrecord").map(parse))
    """

    def __init__(self, make_dataset: Callable[[], tf.data.Dataset]) -> None:
        if isinstance(make_dataset, tensorflow.compat.v2.data.Dataset):
            raise TypeError(
                "DataFromTFDataset: expected a function that returns a tf.data.Dataset, got a Dataset, which belongs to one "
                "graph. Build it in a function."
            )
        self._make_dataset = check_callable("DataFromTFDataset: make_dataset", make_dataset)

    def __iter__(self) -> Iterator[Datapoint]:
        ensure_graph_mode()
        with tf.Graph().as_default() as graph:
            dataset = check_type(
                "DataFromTFDataset: the result of make_dataset",
                self._make_dataset(),
                tensorflow.compat.v2.data.Dataset,
                "a tf.data.Dataset",
            )
            iterator = tf.data.make_initializable_iterator(dataset)
            element, start = iterator.get_next(), iterator.initializer
        return self._run(graph, start, element)

    @staticmethod
    def _run(graph: tf.Graph, start: tf.Operation, element: Any) -> Iterator[Datapoint]:
        # not the default session of the caller, who runs code between two datapoints
        session = Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))
        try:
            session.run(start)
            while True:
                try:
                    values = session.run(element)
                except tf.errors.OutOfRangeError:
                    return
                yield values if isinstance(values, dict) else _as_list(values)
        finally:
            session.close()


def _as_list(values: Any) -> list:
    return list(values) if isinstance(values, tuple) else [values]
