"""Replacements for well-known names of `tf.contrib` that exist neither in tf_slim nor in this package."""

from __future__ import annotations

# a sentence: the names below `tf.contrib`, or names of modules for all of their names, that share it
_SHARED = {
    "The package tensorflow_addons has it for TensorFlow up to 2.15.": (
        "crf resampler sparsemax seq2seq.BeamSearchDecoder seq2seq.BeamSearchDecoderOutput "
        "seq2seq.BeamSearchDecoderState seq2seq.FinalBeamSearchDecoderOutput seq2seq.gather_tree "
        "image.interpolate_spline image.sparse_image_warp"
    ),
    "Use the function of the same purpose in tf.feature_column.": (
        "feature_column layers.check_feature_columns layers.create_feature_spec_for_parsing "
        "layers.infer_real_valued_columns layers.joint_weighted_sum_from_feature_columns "
        "layers.scattered_embedding_column layers.sequence_input_from_feature_columns "
        "layers.transform_features layers.weighted_sparse_column layers.weighted_sum_from_feature_columns"
    ),
    "Use tf.nn.rnn_cell.LSTMCell.": "rnn.GridLSTMCell rnn.PhasedLSTMCell rnn.TimeFreqLSTMCell",
    "Use a tensorpack DataFlow or tf.data.Dataset, which need no queue.": (
        "training.batch_sequences_with_states training.FeedingQueueRunner "
        "training.NextQueuedSequenceBatch training.SequenceQueueingStateSaver"
    ),
    "Use tf.data.experimental.rejection_resample.": (
        "training.rejection_sample training.resample_at_rate training.stratified_sample training.weighted_resample"
    ),
    "Run the script on TensorFlow 1.15.": (
        "bayesflow bigtable boosted_trees cloud constrained_optimization copy_graph decision_trees factorization ffmpeg "
        "fused_conv grid_rnn hadoop hooks ignite input_pipeline integrate kafka kernel_methods kinesis "
        "labeled_tensor libsvm linear_optimizer meta_graph_transform model_pruning "
        "nearest_neighbor optimizer_v2 periodic_resample proto quantization receptive_field recurrent "
        "reduce_slice_ops remote_fused_graph rpc session_bundle solvers specs stat_summarizer tensor_forest "
        "tensorboard testing text timeseries"
    ),
    "Use HorovodTrainer or CollectiveTrainer.": "gdr mpi mpi_collectives verbs",
    "Use a replicated trainer.": "opt.ElasticAverageOptimizer opt.AGNOptimizer",
}

# likewise, a name: its sentence
_SINGLE = {
    "distributions": "The package tensorflow_probability has most distributions: version 0.23 on TensorFlow 2.15, and 0.25 later.",
    "ctc": "Use tf.nn.ctc_loss, tf.nn.ctc_greedy_decoder and tf.nn.ctc_beam_search_decoder.",
    "cudnn_rnn": "Use tf.nn.rnn_cell.LSTMCell or GRUCell with tf.nn.dynamic_rnn, which have the same equations.",
    "quantize": "Remove the call: TensorFlow 2 has no rewriter of graphs for quantized training.",
    "learn": "Use tensorpack's trainers, and tensorpack.dataflow.dataset for data sets such as MNIST.",
    "tpu": "Use tf.tpu.",
    "tensorrt": "Use tensorflow.python.compiler.tensorrt on a TensorFlow that is built with TensorRT.",
    "nccl": "Use tf.raw_ops.NcclAllReduce, or a trainer with mode='nccl'.",
    "all_reduce": "Use SyncMultiGPUTrainerReplicated, which reduces gradients over GPUs.",
    "distribute": "Use tf.distribute, or tensorpack's trainers.",
    "eager": "Use tf.GradientTape and tf.Variable outside of `tensorpack-lite run`.",
    "estimator": "Use tensorpack's trainers.",
    "keras": "Use tf.keras.",
    "legacy_seq2seq.attention_decoder": "Use tf.contrib.seq2seq.AttentionWrapper.",
    "legacy_seq2seq.embedding_attention_decoder": "Use tf.contrib.seq2seq.AttentionWrapper.",
    "legacy_seq2seq.embedding_attention_seq2seq": "Use tf.contrib.seq2seq.AttentionWrapper.",
    "legacy_seq2seq.embedding_rnn_decoder": "Use tf.nn.embedding_lookup, then rnn_decoder.",
    "legacy_seq2seq.embedding_rnn_seq2seq": "Use tf.nn.embedding_lookup, then basic_rnn_seq2seq.",
    "legacy_seq2seq.embedding_tied_rnn_seq2seq": "Use tf.nn.embedding_lookup, then tied_rnn_seq2seq.",
    "legacy_seq2seq.model_with_buckets": "Use tf.nn.dynamic_rnn, which needs no buckets.",
    "legacy_seq2seq.one2many_rnn_seq2seq": "Use several decoders of tf.contrib.seq2seq.",
    "lite": "Use tf.lite.",
    "nn": "Use the function of the same purpose in tf.nn.",
    "stateless": "Use tf.random.stateless_uniform and the other functions of tf.random.",
    "graph_editor": "Use tf.graph_util.import_graph_def with input_map.",
    "gan": "Install tensorflow_gan.",
    "predictor": "Use tensorpack's OfflinePredictor.",
    "saved_model": "Use tf.saved_model.",
    "cluster_resolver": "Use tf.distribute.cluster_resolver.",
    "batching": "Use tf.nondifferentiable_batch_function.",
    "staging": "Use tf.queue and tensorpack's StagingInput.",
    "checkpoint": "Use tf.train.Checkpoint.",
    "mixed_precision": "Use tf.train.experimental.MixedPrecisionLossScaleOptimizer.",
    "layers.bow_encoder": "Use tf.contrib.layers.embed_sequence, then tf.reduce_mean over axis 1.",
    "layers.embedding_column": "Use tf.feature_column.embedding_column.",
    "layers.real_valued_column": "Use tf.feature_column.numeric_column.",
    "layers.bucketized_column": "Use tf.feature_column.bucketized_column.",
    "layers.crossed_column": "Use tf.feature_column.crossed_column.",
    "layers.one_hot_column": "Use tf.feature_column.indicator_column.",
    "layers.shared_embedding_columns": "Use tf.feature_column.shared_embedding_columns.",
    "layers.input_from_feature_columns": "Use tf.feature_column.input_layer.",
    "layers.parse_feature_columns_from_examples": "Use tf.feature_column.make_parse_example_spec.",
    "layers.sparse_column_with_keys": "Use tf.feature_column.categorical_column_with_vocabulary_list.",
    "layers.sparse_column_with_hash_bucket": "Use tf.feature_column.categorical_column_with_hash_bucket.",
    "layers.sparse_column_with_vocabulary_file": "Use tf.feature_column.categorical_column_with_vocabulary_file.",
    "layers.sparse_column_with_integerized_feature": "Use tf.feature_column.categorical_column_with_identity.",
    "framework.smart_case": "Use tf.case.",
    "tfprof.ProfileContext": "Use tensorpack's GraphProfiler.",
    "tfprof.tfprof_logger": "Use tf.contrib.tfprof.model_analyzer.",
    "rnn.CompiledWrapper": "Remove the wrapper. It only compiled the cell with XLA.",
    "seq2seq.BahdanauMonotonicAttention": "Use BahdanauAttention.",
    "seq2seq.LuongMonotonicAttention": "Use LuongAttention.",
    "seq2seq.monotonic_attention": "Use BahdanauAttention or LuongAttention.",
    "image.bipartite_match": "Use scipy.optimize.linear_sum_assignment in tf.py_func.",
    "image.connected_components": "Use scipy.ndimage.label in tf.py_func.",
    "opt.ScipyOptimizerInterface": "Call scipy.optimize.minimize with a function that runs the session.",
    "opt.ModelAverageOptimizer": "Use tf.contrib.opt.MovingAverageOptimizer or a replicated trainer.",
    "data.LMDBDataset": "Use tensorpack's LMDBData.",
    "data.read_batch_features": "Use tf.data.experimental.make_batched_features_dataset.",
    "data.reduce_dataset": "Use dataset.reduce.",
    "data.sliding_window_batch": "Use dataset.window.",
}  # fmt: skip

# full name: a sentence
REPLACEMENTS = {
    **{f"tf.contrib.{name}": sentence for sentence, names in _SHARED.items() for name in names.split()},
    **{f"tf.contrib.{name}": sentence for name, sentence in _SINGLE.items()},
}
