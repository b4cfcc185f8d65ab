"""Names of tensorpack's `train.trainers`, defined in `simple`, `multi_gpu`, `horovod` and `distributed`."""

from .distributed import BytePSTrainer, DistributedTrainerParameterServer, DistributedTrainerReplicated
from .horovod import HorovodTrainer
from .multi_gpu import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from .simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer

__all__ = [
    "AsyncMultiGPUTrainer", "BytePSTrainer", "DistributedTrainerParameterServer",
    "DistributedTrainerReplicated", "HorovodTrainer", "NoOpTrainer", "QueueInputTrainer", "SimpleTrainer",
    "SyncMultiGPUTrainer", "SyncMultiGPUTrainerParameterServer", "SyncMultiGPUTrainerReplicated",
]  # fmt: skip
