"""Address: the inputs live in `base`, `placeholder`, `feed`, `queueing`, `staging`, `tensor`, `tfdata`, `zmq_input`."""

from .base import FeedfreeInput
from .feed import FeedInput
from .placeholder import PlaceholderInput
from .queueing import BatchQueueInput, EnqueueThread, QueueInput
from .staging import StagingInput
from .tensor import DummyConstantInput, TensorInput
from .tfdata import TFDatasetInput
from .zmq_input import ZMQInput

__all__ = ["BatchQueueInput", "DummyConstantInput", "EnqueueThread", "FeedInput", "FeedfreeInput", "PlaceholderInput", "QueueInput", "StagingInput", "TFDatasetInput", "TensorInput", "ZMQInput"]  # fmt: skip
