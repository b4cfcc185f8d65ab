"""Address: the trainers live in train/simple.py and train/multi_gpu.py."""

from .multi_gpu import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from .simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer

__all__ = [
    "AsyncMultiGPUTrainer",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
]
