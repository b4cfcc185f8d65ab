"""Tables of what modules of tensorpack_lite get for old scripts, besides the names of `utils/old_names_table.py`."""

from __future__ import annotations

# Names of today that star imports bind only in old scripts
STAR_NAMES = {
    "utils.loadcaffe": ["get_caffe_pb", "load_caffe"],
    "tfutils.symbolic_functions": [
        "accuracy",
        "batch_flatten",
        "get_scalar_var",
        "huber_loss",
        "prediction_incorrect",
        "shapeless_placeholder",
    ],
}

# Renamed arguments of constructors: module -> class -> old name -> new name
ARGUMENTS = {
    "callbacks.saver": {"ModelSaver": {"keep_recent": "max_to_keep", "keep_freq": "keep_checkpoint_every_n_hours"}},
    "dataflow.map_and_batch": {"MultiProcessMapAndBatchDataZMQ": {"nr_proc": "num_proc"}},
    "dataflow.map_process": {"MultiProcessMapDataZMQ": {"nr_proc": "num_proc"}},
    "dataflow.map_thread": {"MultiThreadMapData": {"nr_thread": "num_thread"}},
    "dataflow.repeat": {"RepeatedData": {"nr": "num"}, "RepeatedDataPoint": {"nr": "num"}},
    "dataflow.runner": {
        "MultiProcessRunner": {"nr_prefetch": "num_prefetch", "nr_proc": "num_proc"},
        "MultiProcessRunnerZMQ": {"nr_proc": "num_proc"},
    },
    "dataflow.runner_thread": {"MultiThreadRunner": {"nr_prefetch": "num_prefetch", "nr_thread": "num_thread"}},
    "dataflow.shuffle": {"LocallyShuffleData": {"nr_reuse": "num_reuse"}},
    "predict.config": {
        "PredictConfig": {
            "inputs_desc": "input_signature",
            "input_var_names": "input_names",
            "output_var_names": "output_names",
        }
    },
}

# Classes with another interface before 2018: module -> class
INTERFACES = {
    "graph_builder.model_desc": "ModelDescBase",
    "input_source.enqueue": "EnqueueThread",
    "input_source.queueing": "QueueInput",
    "train.config": "TrainConfig",
    "train.trainer": "Trainer",
}
