"""One row for each public InputSource: how to create the smallest one."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from fakes.inputs import Numbers

from tensorpack_lite import input_source as inputs
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.mapping import MapData

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


class Row(NamedTuple):
    """
    A public InputSource.

    Args:
        name: the public name.
        make: creates the input from a DataFlow of `[[n, n]]`, n = 0, 1, ...
        uses_dataflow: whether the input reads the DataFlow.
        is_feedfree: whether each tower gets different datapoints.
        restarts: whether `reset_state` restarts with the first datapoint.
    """

    name: str
    make: Callable[[Any], Any]
    uses_dataflow: bool = True
    is_feedfree: bool = True
    restarts: bool = False

    def __str__(self) -> str:
        return self.name


def _samples(flow):
    """Convert `[[n, n]]` to single samples."""
    return MapData(flow, lambda dp: [dp[0][0]])


ROWS = [
    Row("BatchQueueInput", lambda flow: inputs.BatchQueueInput(_samples(flow), 1)),
    Row("DummyConstantInput", lambda flow: inputs.DummyConstantInput([[2]]), uses_dataflow=False),
    Row("FeedInput", inputs.FeedInput, is_feedfree=False, restarts=True),
    Row("PlaceholderInput", lambda flow: inputs.PlaceholderInput(), uses_dataflow=False, is_feedfree=False),
    Row("QueueInput", inputs.QueueInput),
    Row("StagingInput", lambda flow: inputs.StagingInput(inputs.QueueInput(flow))),
    Row("TFDatasetInput", inputs.TFDatasetInput, restarts=True),
    Row("TensorInput", lambda flow: inputs.TensorInput(lambda: [tf.zeros([2])]), uses_dataflow=False),
    Row("remap_input_source", lambda flow: inputs.remap_input_source(inputs.QueueInput(flow), ["x"])),
]

NO_ROW = {
    "FeedfreeInput": "a base class",
    "InputSource": "a base class",
    "ZMQInput": "a QueueInput whose data comes from another process: tests/input_source/test_zmq_input.py",
}
"""Public names of `tensorpack_lite.input_source` without a row, with the reason."""

__all__ = ["NO_ROW", "ROWS", "SIGNATURE", "Numbers", "Row"]
