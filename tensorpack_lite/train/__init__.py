"""
Trainers: each builds a `train_op` in a different way, and all share one loop.

**In:** gradients of each tower, from graph_builder; inputs, from input_source.
**Out:** `train_op`, and the loop that runs it: `Trainer.main_loop`.
**Next:** callbacks, for everything else that happens around a step.
"""

from typing import TYPE_CHECKING

from ..graph_builder.model_desc import ModelDesc, ModelDescBase
from ..loop.signals.end_signals import Preempted
from ..loop.state import StopTraining
from ..utils.missing_names import explain_missing_names
from .collective import CollectiveTrainer
from .config import AutoResumeTrainConfig, TrainConfig
from .defaults import DEFAULT_CALLBACKS, DEFAULT_EXTENSIONS, DEFAULT_MONITORS
from .distributed import BytePSTrainer, DistributedTrainerParameterServer, DistributedTrainerReplicated
from .exact.what_is_exact import begin_exact_resume
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
from .trainer import Trainer

__all__ = [
    "DEFAULT_CALLBACKS", "DEFAULT_EXTENSIONS", "DEFAULT_MONITORS", "AsyncMultiGPUTrainer",
    "AutoResumeTrainConfig", "BytePSTrainer", "CollectiveTrainer", "DistributedTrainerParameterServer",
    "DistributedTrainerReplicated", "HorovodTrainer", "ModelDesc", "ModelDescBase", "NoOpTrainer",
    "Preempted", "QueueInputTrainer", "SimpleTrainer", "SingleCostTrainer", "StopTraining",
    "SyncMultiGPUTrainer", "SyncMultiGPUTrainerParameterServer", "SyncMultiGPUTrainerReplicated",
    "TowerTrainer", "TrainConfig", "Trainer", "begin_exact_resume", "launch_train_with_config",
]  # fmt: skip

Trainer.default_callbacks = staticmethod(DEFAULT_CALLBACKS)
Trainer.default_extensions = staticmethod(DEFAULT_EXTENSIONS)
Trainer.default_monitors = staticmethod(DEFAULT_MONITORS)

if not TYPE_CHECKING:
    __getattr__ = explain_missing_names(__name__)
