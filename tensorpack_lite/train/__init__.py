"""
Trainers: each is one way of making a `train_op`; all share one loop.

**In:** gradients of each tower, from graph_builder; inputs, from input_source.
**Out:** `train_op`, and the double loop that runs it: `Trainer.main_loop`.
**Next:** callbacks, for everything that happens around a step.
"""

from ..graph_builder.model_desc import ModelDesc, ModelDescBase
from ..loop.state import StopTraining
from .base import Trainer
from .collective import CollectiveTrainer
from .config import AutoResumeTrainConfig, TrainConfig
from .defaults import DEFAULT_CALLBACKS, DEFAULT_MONITORS
from .distributed import BytePSTrainer, DistributedTrainerParameterServer, DistributedTrainerReplicated
from .horovod import HorovodTrainer
from .interface import launch_train_with_config
from .multi_gpu import (
    AsyncMultiGPUTrainer,
    SyncMultiGPUTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)
from .simple import NoOpTrainer, QueueInputTrainer, SimpleTrainer
from .tower import SingleCostTrainer, TowerTrainer

__all__ = [
    "DEFAULT_CALLBACKS",
    "DEFAULT_MONITORS",
    "AsyncMultiGPUTrainer",
    "AutoResumeTrainConfig",
    "BytePSTrainer",
    "CollectiveTrainer",
    "DistributedTrainerParameterServer",
    "DistributedTrainerReplicated",
    "HorovodTrainer",
    "ModelDesc",
    "ModelDescBase",
    "NoOpTrainer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SingleCostTrainer",
    "StopTraining",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
    "TowerTrainer",
    "TrainConfig",
    "Trainer",
    "launch_train_with_config",
]
