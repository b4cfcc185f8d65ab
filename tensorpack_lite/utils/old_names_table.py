"""
The tables of names that tensorpack 0.2 to 0.10 had and 0.11 does not have.

docs/names.md shows them, and tests/old_names/test_old_names.py loads each name.
"""

from __future__ import annotations

from typing import NamedTuple


class Old(NamedTuple):
    """
    The replacement of an old name.

    Attributes:
        advice: one or two sentences that name the replacement.
        target: "module:attribute" or "module", below tensorpack_lite, that provides the name for `tensorpack-lite run`;
            "" if nothing does.
    """

    advice: str
    target: str = ""

    def sentence(self, path: str) -> str:
        """Return the message of the error for this name, whose full name is `path`."""
        way_out = " An old script runs unchanged with `tensorpack-lite run`." if self.target else ""
        return f"{path}: {self.advice}{way_out}"


_RL = Old("Reinforcement learning left tensorpack in 2018. Use environments of the package gymnasium.")
_FORK = "tensorpack 0.11 does not have it."
_PROJECT = Old(f"{_FORK} Copy the module from the project that defined it.")
_PLASMA = Old("The Plasma store was removed from PyArrow. MultiProcessRunnerZMQ uses shared memory.")
_PIPES = Old("A private helper of tensorpack's ZMQ runners. Use MultiProcessRunnerZMQ or MultiProcessMapData.")
_WORKER = Old("Use MultiProcessDatasetPredictor, or MultiThreadAsyncPredictor.")
_INPUT = Old(
    "Use tf.TensorSpec(shape, dtype, name), or InputDesc and ModelDesc of tensorpack_lite.trainv1.",
    "trainv1.inputs:InputDesc",
)
_FUNCTIONS = "tfutils.symbolic_functions"


def _moved(module: str, *names: str) -> dict[str, Old]:
    """Return what became of names that another module has now."""
    return {name: Old(f"Import it from tensorpack_lite.{module}.", f"{module}:{name}") for name in names}


# Modules: old dotted name -> what became of it. The importer of `tensorpack-lite run` reads this table.
OLD_MODULES = {
    "RL": _RL,
    "RL.envbase": _RL,
    "RL.simulator": _RL,
    "RL.common": _RL,
    "RL.gymenv": _RL,
    "RL.history": _RL,
    "RL.expreplay": _RL,
    "dftools": Old("Import tensorpack_lite.dataflow.dftools.", "dataflow.dftools"),
    "symbolic_functions": Old("Import tensorpack_lite.tfutils.symbolic_functions.", _FUNCTIONS),
    "models.nonlinear": Old("Import the layers from tensorpack_lite.models.", "models.nonlin"),
    "models.image_sample": Old("ImageSample and ResizeImages were removed. Use tf.image.resize_bilinear."),
    "models._test": Old("It contained tests of tensorpack."),
    "predict.common": Old("Import PredictConfig from tensorpack_lite.predict.", "predict.config"),
    "tfutils.modelutils": Old("Import tensorpack_lite.tfutils.model_utils.", "tfutils.model_utils"),
    "tfutils.symbfunc": Old("Import tensorpack_lite.tfutils.symbolic_functions.", _FUNCTIONS),
    "train.base_trainer": Old("Import tensorpack_lite.train.base.", "train.base"),
    "train.feedfree": Old("Import the trainers from tensorpack_lite.trainv1.", "trainv1.feedfree"),
    "train.multigpu": Old("Import the trainers from tensorpack_lite.train.", "train.multi_gpu"),
    "train.trainer": Old("Import the trainers from tensorpack_lite.train.", "train.simple"),
    "utils.anytime_loss": _PROJECT,
    "utils.globvars": Old("Keep such values in a module of your own."),
    "utils.lut": Old("Use a dict for each direction."),
    "utils.rect": Old("Use a NumPy array of [x0, y0, x1, y1]."),
    "utils.sessinit": Old("Import tensorpack_lite.tfutils.sessinit.", "tfutils.sessinit"),
    "utils.stat": Old("Import tensorpack_lite.utils.stats.", "utils.stats"),
}

# Modules (below tensorpack_lite; "" is the root) -> {name: what became of it}
_ROWS: dict[tuple[str, ...], dict[str, Old]] = {
    ("", "graph_builder", "graph_builder.model_desc", "train", "train.model_desc"): {
        "InputDesc": _INPUT,
        "InputVar": _INPUT,
    },
    ("", "train"): {
        "FeedfreeTrainerBase": Old(
            "Derive from TowerTrainer, or from tensorpack_lite.trainv1.Trainer.",
            "trainv1.feedfree:FeedfreeTrainerBase",
        ),
        "FeedfreeTrainer": Old("Use SimpleTrainer with an InputSource.", "trainv1.trainers:SimpleTrainer"),
        "SimpleFeedfreeTrainer": Old("Use SimpleTrainer with an InputSource.", "trainv1.trainers:SimpleTrainer"),
        "MultiGPUTrainerBase": Old("Derive from SyncMultiGPUTrainerReplicated or SingleCostTrainer."),
        "QueueInputTrainerBase": Old("Derive from SingleCostTrainer, and pass a QueueInput as its input."),
        "SingleCostFeedfreeTrainer": Old(
            "Derive from SingleCostTrainer.", "trainv1.feedfree:SingleCostFeedfreeTrainer"
        ),
    },
    ("", "tfutils", "tfutils.common"): {
        "get_global_step": Old("Use get_global_step_value().", "tfutils.common:get_global_step_value"),
        "get_op_var_name": Old("Use tfutils.common.get_op_tensor_name(name).", "tfutils.common:get_op_tensor_name"),
        "get_tf_version_number": Old(
            "Use get_tf_version_tuple(), because 1.10 as a float is less than 1.9.",
            "trainv1.functions:get_tf_version_number",
        ),
    },
    ("", "tfutils"): {
        **_moved("tfutils.collection", "backup_collection", "freeze_collection", "restore_collection"),
        **_moved("tfutils.common", "get_op_or_tensor_by_name", "get_tensors_by_names", "get_op_tensor_name"),
        "NewSession": Old("Use JustCurrentSession().", "tfutils.sessinit:JustCurrentSession"),
        "TryResumeTraining": Old("Use AutoResumeTrainConfig instead of TrainConfig."),
        "clear_collection": Old("Use tf.get_default_graph().clear_collection(name)."),
        "get_vars_by_names": Old("Use tfutils.common.get_tensors_by_names(names)."),
    },
    ("", "tfutils.varmanip"): {
        "dump_chkpt_vars": Old("Use load_chkpt_vars(path).", "tfutils.varmanip:load_chkpt_vars")
    },
    ("", "tfutils.summary"): {
        "summary_moving_average": Old("Use add_moving_summary(*tensors).", "trainv1.functions:summary_moving_average")
    },
    ("", "tfutils.sessinit"): {"ParamRestore": Old("Use DictRestore(dict).", "tfutils.sessinit:DictRestore")},
    ("", "callbacks"): {
        "FeedfreeInferenceRunner": Old(
            "Use InferenceRunner with an InputSource.", "callbacks.inference_runner:InferenceRunner"
        ),
        "StatHolder": Old("Use trainer.monitors.", "trainv1.callbacks:StatHolder"),
        "StatPrinter": Old("The default monitors print all scalars.", "trainv1.callbacks:StatPrinter"),
        "SummaryMovingAverage": Old("Use MovingAverageSummary.", "callbacks.summary:MovingAverageSummary"),
        "SummaryWriter": Old("The default monitors write summaries.", "trainv1.callbacks:SummaryWriter"),
        "TrainingMonitor": Old("Use MonitorBase.", "callbacks.monitor.base:MonitorBase"),
        "Triggerable": Old("Use Callback.", "loop.callback:Callback"),
    },
    ("", "models"): {
        "ImageSample": Old("It was removed. Use tf.image.resize_bilinear."),
        "GroupedConv2D": Old("Use Conv2D(..., split=number of groups).", "models.conv2d:Conv2D"),
        "LeakyReLU": Old("Use tf.nn.leaky_relu(x, alpha).", "trainv1.layers:LeakyReLU"),
        "ResizeImages": Old("Use tf.image.resize_bilinear(images, size).", "trainv1.layers:ResizeImages"),
        "SeparableConv2D": Old(
            "Use tf.nn.separable_conv2d in a function with layer_register.",
            "trainv1.layers:SeparableConv2D",
        ),
        "SoftMax": Old("Use tf.nn.softmax(logits).", "trainv1.layers:SoftMax"),
    },
    ("",): {
        **_moved("utils.gpu", "change_gpu"),
        "StagingInputWrapper": Old("Use StagingInput.", "input_source.staging:StagingInput"),
        "dftools": Old("Import tensorpack_lite.dataflow.dftools.", "dataflow.dftools"),
        "get_nr_gpu": Old("Use get_num_gpu from tensorpack_lite.utils.gpu.", "utils.gpu:get_nr_gpu"),
        "symbolic_functions": Old("Import tensorpack_lite.tfutils.symbolic_functions.", _FUNCTIONS),
    },
    ("", "dataflow"): {
        **_moved("dataflow.dftools", "dump_dataflow_to_process_queue"),
        "DataFromSocket": Old("Use RemoteDataZMQ(addr)."),
        "PlasmaGetData": _PLASMA,
        "PlasmaPutData": _PLASMA,
        "PrefetchOnGPUs": Old("Use MultiProcessRunner, whose DataFlow chooses the GPU in reset_state()."),
        "PrefetchProcess": Old("Use MultiProcessRunner(df, num_prefetch, num_proc)."),
        "TFRecordData": Old("Use TFRecordSerializer.load.", "dataflow.serialize:TFRecordSerializer.load"),
        "LMDBDataPoint": Old("Use LMDBSerializer.load(path).", "dataflow.dftools:LMDBDataPoint"),
        "ThreadedMapData": Old("Use MultiThreadMapData.", "dataflow.map_thread:MultiThreadMapData"),
        "dump_dataflow_to_lmdb": Old("Use LMDBSerializer.save(df, path).", "dataflow.dftools:dump_dataflow_to_lmdb"),
        "dump_dataflow_to_tfrecord": Old(
            "Use TFRecordSerializer.save(df, path).", "dataflow.dftools:dump_dataflow_to_tfrecord"
        ),
        "serve_data": Old("Use send_dataflow_zmq(df, addr).", "dataflow.remote:send_dataflow_zmq"),
    },
    ("dataflow.dataset",): {
        "Camvid": Old(f"{_FORK} Read the images with ImageFromFile."),
        "PascalVOC": Old(f"{_FORK} Read the images with ImageFromFile."),
        "map_cityscape_labels_to_train_labels": Old(f"{_FORK} Map the labels with an array as table."),
    },
    ("dataflow.parallel",): {
        "PlasmaGetData": _PLASMA,
        "PlasmaPutData": _PLASMA,
        "_bind_guard": _PIPES,
        "_get_pipe_name": _PIPES,
        "_zmq_catch_error": _PIPES,
        "del_weakref": _PIPES,
    },
    ("", "predict"): {
        "MultiProcessPredictWorker": _WORKER,
        "MultiProcessQueuePredictWorker": _WORKER,
        "MultiThreadPredictWorker": _WORKER,
        "get_predict_func": Old("Use OfflinePredictor(config).", "predict.base:OfflinePredictor"),
    },
    ("utils",): _moved("utils.fs", "get_dataset_path"),
    ("utils.fs",): {"set_dataset_path": Old("Set the environment variable TENSORPACK_DATASET.")},
    ("utils.logger",): {
        "_getlogger": Old("Use logging.getLogger('tensorpack_lite').", "utils.logger:_make_logger"),
        "set_log_root": Old(f"{_FORK} Use logger.set_logger_dir(path)."),
    },
}

# Names: old dotted name -> what became of it
OLD_NAMES = {
    ".".join(filter(None, [module, name])): old
    for modules, names in _ROWS.items()
    for module in modules
    for name, old in names.items()
}

# Names that always work, without being public: they are small, and nothing has replaced them
KEPT_NAMES = [
    "dataflow.dftools",
    "dataflow.imgaug.GaussianDeform",
    "dataflow.imgaug.geometry.TransformAugmentorBase",
    "dataflow.prefetch",
    "models.PReLU.symbolic_function",
    f"{_FUNCTIONS}.accuracy",
    f"{_FUNCTIONS}.batch_flatten",
    f"{_FUNCTIONS}.get_scalar_var",
    f"{_FUNCTIONS}.huber_loss",
    f"{_FUNCTIONS}.prediction_incorrect",
    f"{_FUNCTIONS}.shapeless_placeholder",
    "tfutils.varmanip.SessionUpdate.load_value_to_var",
]


def find_old_name(path: str) -> Old | None:
    """Return what became of a name or a module, by its dotted name below tensorpack; None if there was none."""
    return OLD_MODULES.get(path) or OLD_NAMES.get(path)
