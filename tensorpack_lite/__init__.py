"""
Training for TensorFlow graphs, with tensorpack's interface.

A datapoint passes through the packages in this order:

    dataflow -> input_source -> tfutils.tower, models, graph_builder -> train, loop -> callbacks -> predict

`from tensorpack_lite import *` provides the same names as `from tensorpack import *` did. Importing the package
changes nothing outside it. TensorFlow takes seconds to import, so the package imports it when a name that needs it is
first used. Without TensorFlow, `dataflow` and `utils` work, and every other name raises an ImportError with the
command that installs TensorFlow. Type checkers and editors read `__init__.pyi`, which has all names.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from . import utils
from ._version import __version__
from .utils import *
from .utils.missing_names import missing_name

# The names in `_with_tensorflow.__all__`. They are written out here because that module imports TensorFlow, and an
# attribute lookup for an unknown name must not: pickle looks for some functions in every loaded module.
_TENSORFLOW_NAMES = {
    "AUC", "Accuracy",
    "AsyncMultiGPUTrainer", "AutoResumeTrainConfig", "AvgPooling", "BNReLU", "BatchNorm",
    "BatchQueueInput", "BatchRenorm", "BinaryClassificationStats", "BytePSTrainer", "CSVWriter",
    "Callback", "CallbackFactory", "CallbackToHook", "Callbacks", "ChainInit", "CheckNumerics",
    "CheckReplicas", "ClassificationError", "CollectiveTrainer", "CometMLMonitor", "ConcatWith", "ConfusionMatrix", "Conv2D",
    "Conv2DTranspose", "DEFAULT_CALLBACKS", "DEFAULT_EXTENSIONS", "DEFAULT_MONITORS", "DataParallelInferenceRunner",
    "DataParallelOfflinePredictor", "DatasetPredictorBase", "Deconv2D", "DictRestore",
    "DistributedTrainerParameterServer", "DistributedTrainerReplicated", "Dropout", "DummyConstantInput",
    "DumpParamAsImage", "DumpTensor", "DumpTensorAsImage", "DumpTensors", "EMAWeights", "EarlyStopping",
    "EnableCallbackIf", "EstimatedTimeLeft", "FeedInput", "FeedfreeInput", "FeedfreePredictor",
    "FixedUnPooling", "FullyConnected", "GPUMemoryTracker", "GPUUtilizationTracker", "GRU",
    "GlobalAvgPooling", "GraphProfiler", "GraphVarParam", "HookToCallback", "HorovodTrainer",
    "HostMemoryTracker", "HumanHyperParamSetter", "HyperParam", "HyperParamSetter",
    "HyperParamSetterWithFunc", "InferenceRunner", "InferenceRunnerBase", "Inferencer", "InjectShell",
    "InputSource", "InstanceNorm", "JSONWriter", "JustCurrentSession", "LSTM", "LayerNorm", "LinearWrap",
    "LearningRateFinder", "LossSpike", "MLflowMonitor", "ManifestWriter", "MaxPooling", "MaxSaver", "Maxout", "MergeAllSummaries", "MinSaver", "ModelDesc",
    "ModelDescBase", "ModelSaver", "ModelSummary", "MonitorBase", "Monitors", "MovingAverageSummary",
    "MultiHeadAttention", "MultiProcessDatasetPredictor", "MultiThreadAsyncPredictor", "MultiTowerOfflinePredictor",
    "NoOpTrainer", "ObjAttrParam", "OfflinePredictor", "OnlinePredictor", "PReLU", "PeakMemoryTracker",
    "PeriodicCallback", "PeriodicRunHooks", "PeriodicTrigger", "PlaceholderInput", "PredictConfig", "PredictorBase",
    "Preempted", "ProcessTensors", "ProgressBar", "ProxyCallback", "QueueInput", "QueueInputTrainer",
    "RecordHyperParams", "RegressionErrors", "ReportWriter", "RunOp", "RunUpdateOps", "SaverRestore", "SaverRestoreRelaxed", "ScalarPrinter", "ScalarStats",
    "ScalarTable", "ScheduledHyperParamSetter", "SendMonitorData", "SendStat", "SessionInit",
    "SessionRunTimeout", "ShardedInferenceRunner", "SimpleDatasetPredictor", "SimpleMovingAverage",
    "SimpleTrainer", "SingleCostTrainer", "SmartInit", "Speed", "StagingInput", "StartProcOrThread",
    "StatMonitorParamSetter", "StopTraining", "SwapEMAWeights", "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer", "SyncMultiGPUTrainerReplicated", "TFDatasetInput",
    "TFEventWriter", "TFLocalCLIDebugHook", "TensorInput", "TensorPrinter", "TerminateOnNaN",
    "ThroughputTracker", "TopKSaver", "TowerContext", "TowerTrainer", "TrainConfig", "Trainer",
    "VariableHolder", "WandbMonitor", "WorstSamples", "ZMQInput", "argscope", "begin_exact_resume", "callbacks",
    "collect_env_info", "compat", "disable_layer_logging", "enable_argscope_for_function",
    "enable_argscope_for_module", "get_arg_scope", "get_current_tower_context", "get_default_sess_config",
    "get_global_step_value", "get_global_step_var", "get_model_loader", "get_tf_version_tuple",
    "gradproc", "graph_builder", "input_source", "l1_regularizer", "l2_regularizer",
    "launch_train_with_config", "layer_register", "models", "optimizer", "precision_scope", "predict", "recompute_grad", "regularize_cost",
    "regularize_cost_from_collection", "remap_input_source", "rename_tflayer_get_variable", "sesscreate",
    "sessinit", "summary", "tfutils", "tfv1", "tower", "train", "varreplace", "with_precision", "with_xla",
}  # fmt: skip


def _public_names() -> list[str]:
    names = ["dataflow", "utils", *utils.__all__, *import_module(".dataflow", __name__).__all__]
    if find_spec("tensorflow"):
        names += sorted(_TENSORFLOW_NAMES)
    return names


def __dir__() -> list[str]:
    return sorted([*__getattr__("__all__"), "__version__"])


def __getattr__(name: str) -> Any:
    """Import a name on first use (PEP 562). `from tensorpack_lite import *` looks up `__all__` here, too."""
    if name == "__all__":
        return _public_names()
    if name in _TENSORFLOW_NAMES:
        if find_spec("tensorflow") is None:
            raise ImportError(f'{__name__}.{name} needs TensorFlow. Run: pip install "tensorpack_lite[tf]"')
        return getattr(import_module("._with_tensorflow", __name__), name)
    if not name.startswith("_"):
        package = import_module(".dataflow", __name__)
        if name == "dataflow":
            return package
        if name in package.__all__:
            return getattr(package, name)
    raise missing_name(__name__, name)
