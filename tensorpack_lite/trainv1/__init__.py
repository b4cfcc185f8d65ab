"""
tensorpack's first interface: `SomeTrainer(config).train()`, and models that set `self.cost`.

**In:** a script that was written before tensorpack introduced `launch_train_with_config`, and changes only its imports.
**Out:** thin adapters over the current trainers, configs and models.
**Next:** the user, who writes:

    from tensorpack_lite import *
    from tensorpack_lite.trainv1 import *

`tensorpack-lite run` needs not even this change: there, the current classes create the objects of this package where
a script uses them in the old way (`choose.py`).
"""

from .config import AutoResumeTrainConfig, TrainConfig
from .inputs import InputDesc
from .model import ModelDesc
from .trainers import (
    AsyncMultiGPUTrainer,
    NoOpTrainer,
    QueueInputTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    Trainer,
)

__all__ = [
    "AsyncMultiGPUTrainer",
    "AutoResumeTrainConfig",
    "InputDesc",
    "ModelDesc",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "TrainConfig",
    "Trainer",
]
