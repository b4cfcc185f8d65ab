"""
Names that star imports of tensorpack bound from 2016 to 2021, and that the current modules do not have.

The table contains names of the package itself, names that a module had imported from other modules, and names of
modules. `utils/old_names_table.py` has the names that scripts import explicitly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Iterator

from ...utils.old_names_table import OLD_MODULES, OLD_NAMES, Old

_PATCHES = "Use stack_patches or gen_stack_patches of tensorpack_lite.utils.viz."
_PLOT = "Call plt.savefig, and read the file with cv2.imread."
_PREDICTION = "Use OfflinePredictor(config), or trainer.get_predictor(input_names, output_names)."
_PRIVATE = "It was a helper of tensorpack that scripts did not use."
_REMOVED_BUILDER = "Use CollectiveTrainer or HorovodTrainer."
_TF_OPERATION = "It sent datapoints to an operation of tensorpack. Use ZMQInput and send_dataflow_zmq."

# Modules that moved or were removed, besides OLD_MODULES
MODULES = {
    **OLD_MODULES,
    "dataflow.dataset.visualqa": Old("Read the files of VisualQA with the package json."),
    "dataflow.imgaug.external": Old("Call the augmentor of the other library in MapDataComponent."),
    "dataflow.tf_func": Old("Call the function in the model, or a predictor in MapData."),
    "graph_builder.distributed": Old(_REMOVED_BUILDER),
    "graph_builder.input_source": Old("", "input_source.input_source"),
    "graph_builder.input_source_base": Old("", "input_source.input_source_base"),
    "graph_builder.predict": Old(_PREDICTION),
    "graph_builder.predictor_factory": Old(_PREDICTION),
    "libinfo": Old("", "_version"),
    "models.model_desc": Old("", "graph_builder.model_desc"),
    "models.softmax": Old("", "trainv1.layers"),
    "tfutils.distributed": Old(_REMOVED_BUILDER),
    "tfutils.distributions": Old("Use tf.distributions, or tensorflow_probability."),
    "train.input_data": Old("", "input_source.input_source"),
    "train.predict": Old(_PREDICTION),
    "train.utility": Old("", "graph_builder.utils"),
    "trainv1.distributed": Old("", "train.distributed"),
    "trainv1.multigpu": Old("", "trainv1.trainers"),
    "utils.debug": Old("Use the debugger pdb, or sys.settrace."),
    "utils.discretize": Old("Use numpy.digitize."),
}


def _same(module: str, names: str) -> dict[str, str]:
    """Return the addresses of names that another module has under the same names."""
    return {name: f"{module}:{name}" for name in names.split()}


# Modules that were star names of their package
_SUBMODULES = {
    "": "libinfo",
    "dataflow": "dftools",
    "dataflow.dataset": "bsds500 cifar ilsvrc mnist svhn visualqa",
    "models": "batch_norm conv2d fc image_sample model_desc nonlin pool regularize softmax",
    "tfutils": "collection distributed distributions export model_utils modelutils scope_utils symbolic_functions varmanip",
    "utils": """argtools concurrency debug develop discretize fs globvars loadcaffe lut rect serialize stat stats timer
        viz""",
}

_INPUTS = "BatchQueueInput DummyConstantInput FeedInput FeedfreeInput PlaceholderInput QueueInput TensorInput ZMQInput"
_VERSION = "trainv1.functions", "get_tf_version_number"

# Modules ("." is the root) -> {name: "module:attribute" or module that provides it}
_SERVED: dict[str, dict[str, str]] = {
    ".": _same("trainv1.naming", "STATICA_HACK"),
    ". callbacks callbacks.monitor": {"TFSummaryWriter": "callbacks.monitor.event_file:TFEventWriter"},
    ". callbacks callbacks.steps": {
        "StepTensorPrinter": "callbacks.steps:TensorPrinter",
        **_same("trainv1.callbacks", "MaintainStepCounter"),
    },
    "callbacks.base": _same("trainv1.callbacks", "PeriodicCallback"),
    "callbacks.inference": _same("callbacks.inference_runner", "InferenceRunner"),
    "callbacks.stats": {"DumpTensor": "callbacks.graph:DumpTensors"},
    "compat": _same("trainv1.functions", "backport_tensor_spec"),
    ". dataflow dataflow.remote": {"RemoteData": "dataflow.remote:RemoteDataZMQ"},
    "dataflow.dataset dataflow.dataset.places": {"RNGDataFlow": "dataflow.base:RNGDataFlow"},
    "dataflow.dftools": {"dataflow_to_process_queue": "dataflow.remote:dump_dataflow_to_process_queue"},
    "dataflow.prefetch": _same("dataflow.parallel_map", "MultiProcessMapData MultiThreadMapData"),
    "dataflow.dataset dataflow.dataset.places models tfutils.symbolic_functions utils.develop utils.loadcaffe": {
        "logger": "utils.logger"
    },
    "graph_builder": {
        **_same("input_source", f"{_INPUTS} InputSource TFDatasetInput remap_input_source"),
        **_same(
            "graph_builder.training",
            "AsyncMultiGPUBuilder GraphBuilder SyncMultiGPUParameterServerBuilder SyncMultiGPUReplicatedBuilder",
        ),
        **_same("graph_builder.utils", "OverrideCachingDevice override_to_local_variable"),
        "StagingInputWrapper": "input_source:StagingInput",
    },
    "graph_builder graph_builder.utils": _same("trainv1.functions", "aggregate_grads average_grads"),
    "input_source.input_source": {"StagingInputWrapper": "input_source:StagingInput"},
    ". models models.batch_norm": dict.fromkeys(("BatchNormV1", "BatchNormV2"), "models.batch_norm:BatchNorm"),
    ". models models.common": {
        **_same("models.registry", "get_registered_layer"),
        **_same("models.tflayer", "rename_get_variable"),
    },
    ". models models.pool": _same("trainv1.layers", "BilinearUpSample"),
    ". models models.shape_utils": _same("models.shape_utils", "StaticDynamicAxis StaticDynamicShape"),
    ". models models.tflayer models.utils": {
        **_same("trainv1.functions", "monkeypatch_tf_layers"),
        **_same("tfutils.varreplace", "custom_getter_scope"),
        **_same("models.tflayer", "rename_get_variable"),
    },
    "models": {
        **_same("graph_builder.model_desc", "ModelDesc"),
        **dict.fromkeys(("InputDesc", "InputVar"), "trainv1.inputs:InputDesc"),
    },
    "models models.model_desc": _same("tfutils", "TowerContext get_current_tower_context"),
    "models models.tflayer models.utils": _same(*_VERSION),
    "models.tflayer": {
        **_same("utils.argtools", "get_data_format"),
        **_same("tfutils", "get_tf_version_tuple"),
    },
    ". predict predict.base predict.common": {"get_predict_func": "predict.base:OfflinePredictor"},
    ". predict": _same("predict.base", "AsyncPredictorBase"),
    "predict.base": _same("predict.multigpu", "MultiTowerOfflinePredictor"),
    ". tfutils": _same(
        "tfutils.gradproc",
        "CheckGradient GlobalNormClip GradientProcessor MapGradient ScaleGradient SummaryGradient",
    ),
    ". tfutils tfutils.gradproc": _same("trainv1.functions", "apply_grad_processors"),
    "tfutils": {"ParamRestore": "tfutils.sessinit:DictRestore"},
    "tfutils tfutils.sessinit": _same("tfutils.varmanip", "dump_session_params"),
    "tfutils.collect_env": _same("utils.nvml", "NVMLContext"),
    "tfutils.model_utils": {"describe_model": "tfutils.model_utils:describe_trainable_vars"},
    "tfutils.summary": {"create_summary": "tfutils.summary:create_scalar_summary"},
    "tfutils.symbolic_functions": {
        **_same(
            "trainv1.symbolic_functions",
            """class_balanced_binary_class_cross_entropy class_balanced_cross_entropy
            class_balanced_sigmoid_cross_entropy contrastive_loss flatten guided_relu logSoftmax one_hot psnr_loss
            saliency_map siamese_cosine_loss soft_triplet_loss triplet_loss""",
        ),
        **_same("utils.develop", "deprecated"),
    },
    "tfutils.varreplace": {
        "freeze_get_variable": "tfutils.varreplace:freeze_variables",
        "remap_get_variable": "tfutils.varreplace:remap_variables",
        "replace_get_variable": "tfutils.varreplace:custom_getter_scope",
    },
    ". train train.input_data": {"InputData": "input_source:InputSource"},
    ". train train.distributed": {"DistributedReplicatedTrainer": "train.distributed:DistributedTrainerReplicated"},
    ". train train.interface": _same("train.interface", "apply_default_prefetch"),
    ". train train.multigpu train.utility": _same("graph_builder.utils", "LeastLoadedDeviceSetter"),
    "train": _same("input_source", _INPUTS),
    "train.feedfree": _same("train.simple", "QueueInputTrainer"),
    "trainv1": {
        **_same("train", "StopTraining launch_train_with_config"),
        **_same("train.distributed", "DistributedTrainerReplicated"),
    },
    ". utils utils.naming": _same(
        "trainv1.naming",
        """EXTRA_SAVE_VARS_KEY GLOBAL_STEP_INCR_OP_NAME GLOBAL_STEP_INCR_VAR_NAME GLOBAL_STEP_OP_NAME
        GLOBAL_STEP_VAR_NAME INPUTS_KEY INPUT_VARS_KEY LOCAL_STEP_OP_NAME LOCAL_STEP_VAR_NAME MOVING_SUMMARY_OPS_KEY
        MOVING_SUMMARY_VARS_KEY PREDICT_TOWER PREDICT_TOWER_FREEZE_KEYS SUMMARY_BACKUP_KEYS TOWER_FREEZE_KEYS
        TRAIN_TOWER_FREEZE_KEYS""",
    ),
    ". utils utils.utils": {
        **_same("utils.utils", "get_tqdm_kwargs"),
        **_same("utils.argtools", "map_arg memoized"),
        **_same("trainv1.functions", "building_rtfd"),
        **_same("utils.fs", "get_dataset_path"),
        **_same("utils.gpu", "get_nr_gpu"),
        **_same("utils.timer", "timed_operation"),
    },
    "utils.loadcaffe": _same("utils.utils", "change_env"),
}

# Modules -> {name: one or two sentences}
_REMOVED: dict[str, dict[str, str]] = {
    ". callbacks dataflow dataflow.dataset models predict train": {
        "global_import": _PRIVATE,
        "module_name": _PRIVATE,
    },
    "callbacks.base": dict.fromkeys(
        ("TestCallbackType", "TrainCallbackType"), "Callbacks have no types today. Remove it."
    ),
    "dataflow.dataset": {"VisualQA": MODULES["dataflow.dataset.visualqa"].advice},
    "dataflow.dftools": dict.fromkeys(
        ("dump_dataflow_images", "dump_dataset_images"), "Write the images with cv2.imwrite."
    ),
    "dataflow.imgaug": dict.fromkeys(("Albumentations", "IAAugmentor"), MODULES["dataflow.imgaug.external"].advice),
    "dataflow.imgaug dataflow.imgaug.crop": dict.fromkeys(
        ("FixedCrop", "RandomCropAroundBox", "perturb_BB"), "Cut the array in MapDataComponent."
    ),
    "dataflow.imgaug.deform": {"GaussianMap": "Use imgaug.GaussianDeform."},
    ". dataflow dataflow.parallel_map": {
        "MultiProcessMapDataComponentSharedArray": "Use MultiProcessMapData, which uses shared memory."
    },
    ". dataflow dataflow.prefetch": {
        "BlockParallel": "Use MultiProcessRunner, or a parallel map such as MultiProcessMapData."
    },
    ". dataflow": {"TFFuncMapper": MODULES["dataflow.tf_func"].advice},
    ". graph_builder graph_builder.input_source": {
        "DataParallelFeedInput": "Use FeedInput or QueueInput, whose towers get different data."
    },
    "graph_builder": {
        **dict.fromkeys(("DistributedParameterServerBuilder", "DistributedReplicatedBuilder"), _REMOVED_BUILDER),
        "SimplePredictBuilder": _PREDICTION,
    },
    ". graph_builder train": {"PredictorFactory": _PREDICTION},
    ". models models.model_desc": {
        "ModelFromMetaGraph": "Build the model in the script, or export it with ModelExporter and use tf.saved_model."
    },
    "models models.nonlin": {"NonLinearity": "Call the function itself, e.g. tf.nn.relu(x)."},
    "models.tflayer": {"map_common_tfargs": _PRIVATE},
    ". predict predict.base predict.common": dict.fromkeys(
        (
            "PredictResult",
            "PredictorTowerBuilder",
            "build_multi_tower_prediction_graph",
            "build_prediction_graph",
        ),
        _PREDICTION,
    ),
    ". tfutils tfutils.common": {"get_tf_version": "Use get_tf_version_tuple()."},
    "tfutils.collect_env": dict.fromkeys(("find_library", "parse_TF_build_info", "tensorpack"), _PRIVATE),
    "tfutils.export": {"ModelExport": "Use ModelExporter(config) of tensorpack_lite.predict.export."},
    "tfutils.model_utils": {"apply_slim_collections": "The trainers run tf.GraphKeys.UPDATE_OPS. Remove it."},
    "tfutils.scope_utils": {"get_name_scope_name": "Use tf.get_default_graph().get_name_scope()."},
    ". train train.trainer": {"MultiPredictorTowerTrainer": "Derive from TowerTrainer, and call its get_predictor()."},
    "trainv1 trainv1.multigpu": {"MultiGPUTrainerBase": OLD_NAMES["train.MultiGPUTrainerBase"].advice},
    ". utils utils.gpu utils.utils": {"get_gpus": "Use get_num_gpu() of tensorpack_lite.utils.gpu."},
    "utils.develop": {"LazyLoader": "Import the module in the function that uses it."},
    "utils.loadcaffe": {"get_processor": _PRIVATE},
    "utils.logger": {
        "disable_logger": "Use logging.disable().",
        "warn_dependency": "Use logger.warning(text).",
    },
    "utils.serialize": {
        **dict.fromkeys(("dump_tensor_protos", "dumps_for_tfop", "to_tensor_proto"), _TF_OPERATION),
        "NonPicklableWrapper": "Use the package cloudpickle.",
    },
    "utils.viz": {"build_patch_list": _PATCHES, "pyplot2img": _PLOT, "pyplot_viz": _PLOT},
}

# Names that OLD_NAMES has in the package, or else in the root: module -> names
_ALSO_IN = {
    "callbacks.base": "Triggerable",
    "callbacks.inference_runner": "FeedfreeInferenceRunner",
    "callbacks.monitor": "TrainingMonitor",
    "callbacks.stats": "StatHolder StatPrinter",
    "dataflow.format": "LMDBDataPoint TFRecordData",
    "dataflow.parallel": "PrefetchOnGPUs",
    "dataflow.parallel_map": "ThreadedMapData",
    "dataflow.prefetch": "PrefetchOnGPUs ThreadedMapData",
    "dataflow.raw": "DataFromSocket",
    "dataflow.remote": "serve_data",
    "input_source": "StagingInputWrapper",
    "models.nonlin": "LeakyReLU",
    "predict.concurrency": "MultiProcessPredictWorker MultiProcessQueuePredictWorker",
    "tfutils.collection": "clear_collection",
    "tfutils.common": "backup_collection clear_collection freeze_collection get_vars_by_names restore_collection",
    "tfutils.sessinit": "NewSession TryResumeTraining",
    "train.feedfree": "SimpleFeedfreeTrainer",
    "train.multigpu": "MultiGPUTrainerBase",
    "utils": "change_gpu get_nr_gpu",
}


@lru_cache(maxsize=None)
def star_names() -> dict[str, dict[str, Old]]:
    """Return {current module: {old name: its replacement}}."""
    found: dict[str, dict[str, Old]] = {}
    for places, name, old in _rows():
        for place in places.split():
            today = MODULES.get(place, Old("", place)).target or place
            found.setdefault(today.strip("."), {})[name] = old
    return found


def _rows() -> Iterator[tuple[str, str, Old]]:
    """Yield modules, an old name of these modules, and its replacement."""
    for package, names in _SUBMODULES.items():
        places = package if package.startswith("dataflow") else f". {package}"
        for name in names.split():
            path = f"{package}.{name}".strip(".")
            yield places, name, MODULES.get(path, Old("", path))
    for place, names in _ALSO_IN.items():
        for name in names.split():
            yield place, name, OLD_NAMES.get(f"{place.rpartition('.')[0]}.{name}") or OLD_NAMES[name]
    for places, targets in _SERVED.items():
        yield from ((places, name, Old("", target)) for name, target in targets.items())
    for places, sentences in _REMOVED.items():
        yield from ((places, name, Old(sentence)) for name, sentence in sentences.items())
