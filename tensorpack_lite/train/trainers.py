"""Address: the trainers live in `simple`, `multi_gpu` and `distributed`."""

from .distributed import BytePSTrainer, DistributedTrainerParameterServer, DistributedTrainerReplicated
from .multi_gpu import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from .simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer

__all__ = [
    "AsyncMultiGPUTrainer",
    "BytePSTrainer",
    "DistributedTrainerParameterServer",
    "DistributedTrainerReplicated",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
]
