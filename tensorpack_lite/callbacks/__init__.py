"""
Callbacks: everything that a training does besides its steps.

**In:** calls from the training loop in `loop`, and the values of tensors that a callback fetches.
**Out:** checkpoints, hyper-parameters that change, validation, and scalars, which go to `monitor`.
**Next:** `train` runs the callbacks; `predict` loads the checkpoints.

The docstring of `loop/callback.py` shows when each method of a callback is called. `saver.py` is a good
example to read.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from ..loop.group import Callbacks
from ..loop.hooks import CallbackToHook, HookToCallback
from ..loop.proxy_callback import ProxyCallback
from ..utils.missing_names import missing_name
from .best_saver import MaxSaver, MinSaver
from .concurrency import StartProcOrThread
from .debug_cli import TFLocalCLIDebugHook
from .early_stopping import EarlyStopping
from .ema import EMAWeights, SwapEMAWeights
from .graph import (
    CheckNumerics,
    DumpParamAsImage,
    DumpTensor,
    DumpTensorAsImage,
    DumpTensors,
    ProcessTensors,
    RunOp,
    RunUpdateOps,
)
from .inference import BinaryClassificationStats, ClassificationError, Inferencer, ScalarStats
from .inference_runner import DataParallelInferenceRunner, InferenceRunner, InferenceRunnerBase
from .measures import AUC, Accuracy, ConfusionMatrix, RegressionErrors
from .misc import EstimatedTimeLeft, InjectShell, SendStat
from .monitor.base import MonitorBase
from .monitor.comet import CometMLMonitor
from .monitor.command import SendMonitorData
from .monitor.csv_file import CSVWriter
from .monitor.event_file import TFEventWriter
from .monitor.json_file import JSONWriter
from .monitor.mlflow_run import MLflowMonitor
from .monitor.monitors import Monitors
from .monitor.printer import ScalarPrinter
from .monitor.table import ScalarTable
from .monitor.wandb_run import WandbMonitor
from .param.finder import LearningRateFinder
from .param.hyperparam import GraphVarParam, HyperParam, ObjAttrParam
from .param.schedule import ScheduledHyperParamSetter
from .param.setter import HumanHyperParamSetter, HyperParamSetter, HyperParamSetterWithFunc
from .param.statistic import StatMonitorParamSetter
from .prof import (
    GPUMemoryTracker,
    GPUUtilizationTracker,
    GraphProfiler,
    HostMemoryTracker,
    PeakMemoryTracker,
    ThroughputTracker,
)
from .replicas import CheckReplicas
from .report import ReportWriter
from .saver import ModelSaver
from .sharded_inference import ShardedInferenceRunner
from .steps import ProgressBar, SessionRunTimeout, TensorPrinter
from .summary import MergeAllSummaries, MovingAverageSummary, SimpleMovingAverage
from .top_k import TopKSaver
from .trigger import EnableCallbackIf, PeriodicCallback, PeriodicRunHooks, PeriodicTrigger
from .worst_samples import WorstSamples

if TYPE_CHECKING:
    from ..diagnostics.manifest.hyperparams import RecordHyperParams
    from ..diagnostics.manifest.writer import ManifestWriter
    from ..diagnostics.model_summary.callback import ModelSummary
    from ..diagnostics.nan.nan import TerminateOnNaN
    from ..diagnostics.nan.spike import LossSpike
    from ..diagnostics.speed.speed import Speed

__all__ = [
    "AUC", "Accuracy", "BinaryClassificationStats", "CSVWriter", "Callback", "CallbackFactory",
    "CallbackToHook", "Callbacks", "CheckNumerics", "CheckReplicas", "ClassificationError", "CometMLMonitor",
    "ConfusionMatrix", "DataParallelInferenceRunner", "DumpParamAsImage", "DumpTensor", "DumpTensorAsImage",
    "DumpTensors", "EMAWeights", "EarlyStopping", "EnableCallbackIf", "EstimatedTimeLeft", "GPUMemoryTracker",
    "GPUUtilizationTracker", "GraphProfiler", "GraphVarParam", "HookToCallback", "HostMemoryTracker",
    "HumanHyperParamSetter", "HyperParam", "HyperParamSetter", "HyperParamSetterWithFunc", "InferenceRunner",
    "InferenceRunnerBase", "Inferencer", "InjectShell", "JSONWriter", "LearningRateFinder", "LossSpike",
    "MLflowMonitor", "ManifestWriter", "MaxSaver", "MergeAllSummaries", "MinSaver", "ModelSaver",
    "ModelSummary", "MonitorBase", "Monitors", "MovingAverageSummary", "ObjAttrParam", "PeakMemoryTracker",
    "PeriodicCallback", "PeriodicRunHooks", "PeriodicTrigger", "ProcessTensors", "ProgressBar",
    "ProxyCallback", "RecordHyperParams", "RegressionErrors", "ReportWriter", "RunOp", "RunUpdateOps",
    "ScalarPrinter", "ScalarStats", "ScalarTable", "ScheduledHyperParamSetter", "SendMonitorData", "SendStat",
    "SessionRunTimeout", "ShardedInferenceRunner", "SimpleMovingAverage", "Speed", "StartProcOrThread",
    "StatMonitorParamSetter", "SwapEMAWeights", "TFEventWriter", "TFLocalCLIDebugHook", "TensorPrinter",
    "TerminateOnNaN", "ThroughputTracker", "TopKSaver", "WandbMonitor", "WorstSamples",
]  # fmt: skip

# These callbacks are imported when they are first used, because `diagnostics` imports this package.
_DIAGNOSTICS = {
    "LossSpike": "nan.spike",
    "ManifestWriter": "manifest.writer",
    "ModelSummary": "model_summary.callback",
    "RecordHyperParams": "manifest.hyperparams",
    "Speed": "speed.speed",
    "TerminateOnNaN": "nan.nan",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _DIAGNOSTICS:
            return getattr(import_module(f"..diagnostics.{_DIAGNOSTICS[name]}", __package__), name)
        raise missing_name(__name__, name)
