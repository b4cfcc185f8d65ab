"""
InputSources: provide datapoints as tensors, through placeholders, feeds, queues or tf.data.

**In:** datapoints from dataflow, and the model's signature.
**Out:** an `InputSource`: the input tensors of each tower, and the callbacks that supply the data.
**Next:** tfutils (the tower), where the model takes the tensors.
"""

from .base import FeedfreeInput, InputSource
from .feed import FeedInput
from .placeholder import PlaceholderInput
from .queueing import BatchQueueInput, QueueInput
from .remap import remap_input_source
from .staging import StagingInput
from .tensor import DummyConstantInput, TensorInput
from .tfdata import TFDatasetInput
from .zmq_input import ZMQInput

__all__ = [
    "BatchQueueInput", "DummyConstantInput", "FeedInput", "FeedfreeInput", "InputSource", "PlaceholderInput",
    "QueueInput", "StagingInput", "TFDatasetInput", "TensorInput", "ZMQInput", "remap_input_source",
]  # fmt: skip
