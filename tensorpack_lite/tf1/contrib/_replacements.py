"""Replacements for well-known names of `tf.contrib` that exist neither in tf_slim nor in this package."""

from __future__ import annotations

__all__ = ["REPLACEMENTS"]

_ADDONS = "The package tensorflow_addons has it for TensorFlow up to 2.15."
_CUDNN = "Use tf.nn.rnn_cell.LSTMCell or GRUCell with tf.nn.dynamic_rnn, which have the same equations."
_COLUMNS = "Use the function of the same purpose in tf.feature_column."
_QUEUES = "Use a tensorpack DataFlow or tf.data.Dataset, which need no queue."
_QUANTIZE = "Remove the call: TensorFlow 2 has no rewriter of graphs for quantized training."

# full name, or name of a module for all of its names: a sentence
REPLACEMENTS = {
    "tf.contrib.cudnn_rnn": _CUDNN,
    "tf.contrib.quantize": _QUANTIZE,
    "tf.contrib.crf": _ADDONS,
    "tf.contrib.learn": "Use tensorpack's trainers, and tensorpack.dataflow.dataset for data sets such as MNIST.",
    "tf.contrib.tpu": "Use tf.tpu.",
    "tf.contrib.tensorrt": "Use tensorflow.python.compiler.tensorrt on a TensorFlow that is built with TensorRT.",
    "tf.contrib.nccl": "Use tf.raw_ops.NcclAllReduce, or a trainer with mode='nccl'.",
    "tf.contrib.all_reduce": "Use SyncMultiGPUTrainerReplicated, which reduces gradients over GPUs.",
    "tf.contrib.distribute": "Use tf.distribute, or tensorpack's trainers.",
    "tf.contrib.eager": "Use tf.GradientTape and tf.Variable outside of `tensorpack-lite run`.",
    "tf.contrib.estimator": "Use tensorpack's trainers.",
    "tf.contrib.feature_column": _COLUMNS,
    "tf.contrib.keras": "Use tf.keras.",
    "tf.contrib.legacy_seq2seq": "Use tf.contrib.seq2seq.",
    "tf.contrib.lite": "Use tf.lite.",
    "tf.contrib.nn": "Use the function of the same purpose in tf.nn.",
    "tf.contrib.resampler": _ADDONS,
    "tf.contrib.sparsemax": _ADDONS,
    "tf.contrib.stateless": "Use tf.random.stateless_uniform and the other functions of tf.random.",
    "tf.contrib.graph_editor": "Use tf.graph_util.import_graph_def with input_map.",
    "tf.contrib.gan": "Install tensorflow_gan.",
    "tf.contrib.predictor": "Use tensorpack's OfflinePredictor.",
    "tf.contrib.saved_model": "Use tf.saved_model.",
    "tf.contrib.cluster_resolver": "Use tf.distribute.cluster_resolver.",
    "tf.contrib.batching": "Use tf.nondifferentiable_batch_function.",
    "tf.contrib.staging": "Use tf.queue and tensorpack's StagingInput.",
    "tf.contrib.checkpoint": "Use tf.train.Checkpoint.",
    "tf.contrib.mixed_precision": "Use tf.train.experimental.MixedPrecisionLossScaleOptimizer.",
    "tf.contrib.layers.bow_encoder": "Use tf.contrib.layers.embed_sequence, then tf.reduce_mean over axis 1.",
    "tf.contrib.layers.embedding_column": "Use tf.feature_column.embedding_column.",
    "tf.contrib.layers.real_valued_column": "Use tf.feature_column.numeric_column.",
    "tf.contrib.layers.bucketized_column": "Use tf.feature_column.bucketized_column.",
    "tf.contrib.layers.crossed_column": "Use tf.feature_column.crossed_column.",
    "tf.contrib.layers.one_hot_column": "Use tf.feature_column.indicator_column.",
    "tf.contrib.layers.shared_embedding_columns": "Use tf.feature_column.shared_embedding_columns.",
    "tf.contrib.layers.input_from_feature_columns": "Use tf.feature_column.input_layer.",
    "tf.contrib.layers.parse_feature_columns_from_examples": "Use tf.feature_column.make_parse_example_spec.",
    "tf.contrib.layers.sparse_column_with_keys": (
        "Use tf.feature_column.categorical_column_with_vocabulary_list."
    ),
    "tf.contrib.layers.sparse_column_with_hash_bucket": (
        "Use tf.feature_column.categorical_column_with_hash_bucket."
    ),
    "tf.contrib.layers.sparse_column_with_vocabulary_file": (
        "Use tf.feature_column.categorical_column_with_vocabulary_file."
    ),
    "tf.contrib.layers.sparse_column_with_integerized_feature": (
        "Use tf.feature_column.categorical_column_with_identity."
    ),
    **dict.fromkeys(
        [
            "tf.contrib.layers.check_feature_columns",
            "tf.contrib.layers.create_feature_spec_for_parsing",
            "tf.contrib.layers.infer_real_valued_columns",
            "tf.contrib.layers.joint_weighted_sum_from_feature_columns",
            "tf.contrib.layers.scattered_embedding_column",
            "tf.contrib.layers.sequence_input_from_feature_columns",
            "tf.contrib.layers.transform_features",
            "tf.contrib.layers.weighted_sparse_column",
            "tf.contrib.layers.weighted_sum_from_feature_columns",
        ],
        _COLUMNS,
    ),
    "tf.contrib.framework.smart_case": "Use tf.case.",
    "tf.contrib.tfprof.ProfileContext": "Use tensorpack's GraphProfiler.",
    "tf.contrib.tfprof.tfprof_logger": "Use tf.contrib.tfprof.model_analyzer.",
    "tf.contrib.rnn.CompiledWrapper": "Remove the wrapper. It only compiled the cell with XLA.",
    "tf.contrib.rnn.GridLSTMCell": "Use tf.nn.rnn_cell.LSTMCell.",
    "tf.contrib.rnn.PhasedLSTMCell": "Use tf.nn.rnn_cell.LSTMCell.",
    "tf.contrib.rnn.TimeFreqLSTMCell": "Use tf.nn.rnn_cell.LSTMCell.",
    "tf.contrib.seq2seq.BeamSearchDecoder": _ADDONS,
    "tf.contrib.seq2seq.BeamSearchDecoderOutput": _ADDONS,
    "tf.contrib.seq2seq.BeamSearchDecoderState": _ADDONS,
    "tf.contrib.seq2seq.FinalBeamSearchDecoderOutput": _ADDONS,
    "tf.contrib.seq2seq.gather_tree": _ADDONS,
    "tf.contrib.seq2seq.BahdanauMonotonicAttention": "Use BahdanauAttention.",
    "tf.contrib.seq2seq.LuongMonotonicAttention": "Use LuongAttention.",
    "tf.contrib.seq2seq.monotonic_attention": "Use BahdanauAttention or LuongAttention.",
    "tf.contrib.training.bucket": _QUEUES,
    "tf.contrib.training.bucket_by_sequence_length": "Use tf.data.experimental.bucket_by_sequence_length.",
    "tf.contrib.training.batch_sequences_with_states": _QUEUES,
    "tf.contrib.training.rejection_sample": "Use tf.data.experimental.rejection_resample.",
    "tf.contrib.training.resample_at_rate": "Use tf.data.experimental.rejection_resample.",
    "tf.contrib.training.stratified_sample": "Use tf.data.experimental.rejection_resample.",
    "tf.contrib.training.weighted_resample": "Use tf.data.experimental.rejection_resample.",
    "tf.contrib.training.FeedingQueueRunner": _QUEUES,
    "tf.contrib.training.NextQueuedSequenceBatch": _QUEUES,
    "tf.contrib.training.SequenceQueueingStateSaver": _QUEUES,
    "tf.contrib.image.bipartite_match": "Use scipy.optimize.linear_sum_assignment in tf.py_func.",
    "tf.contrib.image.connected_components": "Use scipy.ndimage.label in tf.py_func.",
    "tf.contrib.image.interpolate_spline": _ADDONS,
    "tf.contrib.image.sparse_image_warp": _ADDONS,
    "tf.contrib.opt.ScipyOptimizerInterface": "Call scipy.optimize.minimize with a function that runs the session.",
    "tf.contrib.opt.ElasticAverageOptimizer": "Use a replicated trainer.",
    "tf.contrib.opt.ModelAverageOptimizer": "Use tf.contrib.opt.MovingAverageOptimizer or a replicated trainer.",
    "tf.contrib.opt.AGNOptimizer": "Use a replicated trainer.",
    "tf.contrib.data.LMDBDataset": "Use tensorpack's LMDBData.",
    "tf.contrib.data.read_batch_features": "Use tf.data.experimental.make_batched_features_dataset.",
    "tf.contrib.data.reduce_dataset": "Use dataset.reduce.",
    "tf.contrib.data.sliding_window_batch": "Use dataset.window.",
}  # fmt: skip
