"""
Models of a TensorFlow 1 script: `tf.layers`, slim, `tf.nn.rnn_cell`, and other parts of `tf.contrib`.

`build(tf)` takes plain TensorFlow 1.15, or the same names on TensorFlow 2, and returns the outputs to compare.

    python old_models.py plain FOLDER   on TensorFlow 1.15: write FOLDER/model.* and FOLDER/expected.npz
    python old_models.py again FOLDER   on any: load FOLDER/model, write the outputs as an .npz file to stdout
"""

import io
import os
import sys

import numpy as np

rng = np.random.RandomState(5)
IMAGES = rng.rand(2, 12, 12, 4).astype("float32")
SEQUENCE = rng.rand(2, 5, 4).astype("float32")
LENGTHS = np.array([5, 3], "int32")
STEPS = 3


def tf_layers(tf):
    x = tf.constant(IMAGES)
    x = tf.layers.conv2d(x, 6, 3, padding="same", activation=tf.nn.relu)
    x = tf.layers.batch_normalization(x, training=False)
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.separable_conv2d(x, 5, 3, name="sep")
    x = tf.layers.conv2d_transpose(x, 3, 3, strides=2, name="up")
    x = tf.layers.average_pooling2d(x, 2, 2)
    x = tf.layers.dense(tf.layers.flatten(x), 7, activation=tf.tanh)
    x = tf.layers.dropout(x, training=False)
    return {"dense": tf.layers.dense(x, 3, use_bias=False, name="last")}


def slim_layers(tf):
    slim = tf.contrib.slim
    outputs = {}
    with slim.arg_scope(
        [slim.conv2d, slim.separable_conv2d],
        weights_regularizer=slim.l2_regularizer(0.01),
        normalizer_fn=slim.batch_norm,
        normalizer_params={"is_training": False, "scale": True},
    ):
        x = slim.conv2d(tf.constant(IMAGES), 6, [3, 3])
        x = slim.repeat(x, 2, slim.conv2d, 5, [3, 3], scope="block")
        x = slim.separable_conv2d(x, 6, [3, 3], depth_multiplier=1)
    x = slim.max_pool2d(x, [2, 2])
    x = slim.conv2d_transpose(x, 4, 3, 2)
    x = slim.avg_pool2d(x, [2, 2])
    outputs["pool"] = x
    x = slim.dropout(slim.flatten(x), 0.5, is_training=False)
    x = slim.stack(x, slim.fully_connected, [6, 5])
    outputs["fc"] = slim.fully_connected(x, 3, activation_fn=None, biases_initializer=None, scope="logits")
    outputs["regularization"] = tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
    return outputs


def contrib_layers(tf):
    layers, x = tf.contrib.layers, tf.constant(IMAGES)
    flat = layers.flatten(x)[:, :6]
    outputs = {
        "convolution2d": layers.convolution2d(x, 3, 3),
        "layer_norm": layers.layer_norm(x),
        "batch_norm": layers.batch_norm(x, is_training=True, updates_collections=None),
        "instance_norm": layers.instance_norm(x),
        "group_norm": layers.group_norm(x, groups=2),
        "fully_connected": layers.fully_connected(flat, 3),
        "dropout": layers.dropout(flat, is_training=False),
        "embed_sequence": layers.embed_sequence(tf.constant([[1, 2], [0, 1]]), 4, 3),
        "l1": layers.l1_regularizer(0.1)(flat),
        "l2": layers.l2_regularizer(0.1)(flat),
        "maxout": layers.maxout(flat, 3),
        "xavier": layers.xavier_initializer(seed=3)([4, 5]),
        "xavier_conv2d": layers.xavier_initializer_conv2d(uniform=False, seed=3)([3, 3, 4, 5]),
        "variance_scaling": layers.variance_scaling_initializer(seed=3)([4, 5]),
        "fan_out": layers.variance_scaling_initializer(1.0, "FAN_OUT", True, seed=3)([3, 3, 2, 4]),
    }
    loss = tf.contrib.losses.softmax_cross_entropy(flat, tf.one_hot([1, 2], 6))
    outputs["contrib_loss"] = loss
    return outputs


def run_cell(tf, cell, name, inputs=SEQUENCE):
    output, state = tf.nn.dynamic_rnn(
        cell, tf.constant(inputs), LENGTHS, dtype=tf.float32, scope=name.replace("/", "_")
    )
    return {name: output, name + "/state": tf.concat([tf.reshape(s, [-1]) for s in flatten(state)], 0)}


def flatten(state):
    return [flat for one in state for flat in flatten(one)] if isinstance(state, tuple) else [state]


def rnn_cells(tf):
    cells = tf.nn.rnn_cell
    outputs = {}
    for name, cell in [
        ("basic", cells.BasicRNNCell(3)),
        ("gru", cells.GRUCell(3)),
        ("basic_lstm", cells.BasicLSTMCell(3)),
        ("lstm", cells.LSTMCell(4, use_peepholes=True, num_proj=3, cell_clip=1.0)),
        ("stack", cells.MultiRNNCell([cells.LSTMCell(4), cells.ResidualWrapper(cells.GRUCell(4))])),
        ("dropout", cells.DropoutWrapper(cells.GRUCell(3), input_keep_prob=1.0)),
    ]:
        outputs.update(run_cell(tf, cell, name))
    static, _ = tf.contrib.rnn.static_rnn(
        tf.contrib.rnn.BasicLSTMCell(3), tf.unstack(tf.constant(SEQUENCE), axis=1), dtype=tf.float32
    )
    outputs["static"] = tf.stack(static)
    return outputs


def contrib_cells(tf):
    rnn, outputs = tf.contrib.rnn, {}
    for name, cell in [
        ("block_lstm", rnn.LSTMBlockCell(3, use_peephole=True)),
        ("block_gru", rnn.GRUBlockCell(3)),
        ("block_gru2", rnn.GRUBlockCellV2(3)),
        ("ugrnn", rnn.UGRNNCell(3)),
        ("nas", rnn.NASCell(3, num_proj=2, use_bias=True)),
        ("indrnn", rnn.IndRNNCell(3)),
        ("layer_norm_lstm", rnn.LayerNormBasicLSTMCell(3)),
        ("plain_lstm", rnn.LayerNormBasicLSTMCell(3, layer_norm=False)),
        ("attention_cell", rnn.AttentionCellWrapper(rnn.BasicLSTMCell(3), 2)),
        ("concatenated", rnn.AttentionCellWrapper(rnn.GRUCell(3), 2, 4, 5, state_is_tuple=False)),
        ("input", rnn.InputProjectionWrapper(rnn.GRUCell(3), 5, tf.nn.relu)),
        ("output", rnn.OutputProjectionWrapper(rnn.GRUCell(3), 2)),
        ("highway", rnn.HighwayWrapper(rnn.GRUCell(4), couple_carry_transform_gates=False)),
    ]:
        outputs.update(run_cell(tf, cell, name))
    convolution = rnn.Conv2DLSTMCell(input_shape=[4, 4, 2], output_channels=2, kernel_shape=[3, 3])
    outputs.update(run_cell(tf, convolution, "conv_lstm", IMAGES[:, :10, :, :].reshape(2, -1, 4, 4, 2)[:, :5]))
    ids = (SEQUENCE[:, :, :1] * 5).astype("int32")
    outputs.update(run_cell(tf, rnn.EmbeddingWrapper(rnn.GRUCell(3), 5, 2), "embedding", ids))
    major = tf.constant(SEQUENCE.transpose([1, 0, 2]))
    for name, lengths in [("fused", None), ("fused_lengths", tf.constant(LENGTHS))]:
        cell = rnn.LSTMBlockFusedCell(3, use_peephole=True, name=name)
        outputs[name], state = cell(major, dtype=tf.float32, sequence_length=lengths)
        outputs[name + "/state"] = tf.stack(state)
    fused = rnn.TimeReversedFusedRNN(rnn.FusedRNNCellAdaptor(rnn.GRUCell(3), use_dynamic_rnn=True))
    outputs["reversed"], _ = fused(major, dtype=tf.float32, sequence_length=tf.constant(LENGTHS))
    forward, backward = ([rnn.GRUCell(3), rnn.GRUCell(2)] for _ in range(2))
    outputs["bidirectional"], _, _ = rnn.stack_bidirectional_dynamic_rnn(
        forward, backward, tf.constant(SEQUENCE), dtype=tf.float32, sequence_length=LENGTHS
    )
    return outputs


def seq2seq(tf):
    library, outputs = tf.contrib.seq2seq, {}
    memory = tf.constant(SEQUENCE)
    for name, mechanism in [
        ("bahdanau", library.BahdanauAttention(3, memory, LENGTHS)),
        ("normalized", library.BahdanauAttention(3, memory, normalize=True)),
        ("luong", library.LuongAttention(3, memory, LENGTHS, scale=True)),
    ]:
        with tf.variable_scope(name):
            cell = library.AttentionWrapper(tf.nn.rnn_cell.GRUCell(3), mechanism, attention_layer_size=4)
            helper = library.TrainingHelper(tf.constant(SEQUENCE), LENGTHS)
            layer = tf.layers.Dense(6, name="projection")
            decoder = library.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32), layer)
            decoded, state, lengths = library.dynamic_decode(decoder, impute_finished=True)
            outputs[name] = decoded.rnn_output
            outputs[name + "/lengths"] = lengths
            outputs[name + "/attention"] = state.attention
    targets = tf.constant([[1, 2, 3, 4, 5], [1, 1, 1, 0, 0]])
    weights = tf.sequence_mask(LENGTHS, 5, dtype=tf.float32)
    for axes in [(True, True), (True, False), (False, True), (False, False)]:
        loss = library.sequence_loss(outputs["bahdanau"], targets, weights, *axes)
        outputs[f"loss_{axes[0]:d}{axes[1]:d}"] = loss
    with tf.variable_scope("greedy"):
        embedding = tf.get_variable("embedding", [6, 4])
        helper = library.GreedyEmbeddingHelper(embedding, [1, 2], 0)
        cell = tf.nn.rnn_cell.GRUCell(6)
        decoder = library.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
        decoded, _, _ = library.dynamic_decode(decoder, maximum_iterations=4)
        outputs["greedy"] = decoded.rnn_output
    outputs["tiled"] = library.tile_batch(memory, 2)
    outputs["hardmax"] = library.hardmax(memory)
    return outputs


def images(tf):
    image, x = tf.contrib.image, tf.constant(IMAGES)
    shear = [1.1, 0.2, -1.0, 0.1, 0.9, 0.5, 0.001, 0.002]
    return {
        "rotate": image.rotate(x, [0.3, -0.5], "BILINEAR"),
        "rotate_one": image.rotate(x[0], 0.3),
        "translate": image.translate(x, [1.5, -2.0], "BILINEAR"),
        "transform": image.transform(x, [shear, shear], "BILINEAR", output_shape=[6, 8]),
        "compose": image.compose_transforms(shear, image.angles_to_projective_transforms(0.4, 5.0, 6.0)),
        "warp": image.dense_image_warp(x, 6 * x[..., :2] - 3),
    }


def optimizers(tf):
    """Return variables, and the operation that trains them: dense and sparse gradients, ref and resource variables."""
    opt, variables, updates = tf.contrib.opt, {}, []
    adagrad = opt.extend_with_decoupled_weight_decay(tf.train.AdagradOptimizer)
    for make in [
        lambda: opt.AdamWOptimizer(0.01, 0.1),
        lambda: opt.MomentumWOptimizer(0.01, 0.1, 0.9, use_nesterov=True),
        lambda: adagrad(0.01, learning_rate=0.1),
        lambda: opt.NadamOptimizer(0.1),
        lambda: opt.AdaMaxOptimizer(0.1),
        lambda: opt.LazyAdamOptimizer(0.1),
        lambda: opt.LARSOptimizer(0.1, skip_list=["skipped"]),
        lambda: opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.1), 0.5),
    ]:
        for resource in (False, True):
            optimizer = make()
            name = f"{type(optimizer).__name__}{resource:d}"
            with tf.variable_scope(name, use_resource=resource):
                dense = tf.get_variable("dense", [3])
                skipped = tf.get_variable("skipped", [3])
                table = tf.get_variable("table", [4, 2])
            # linear costs: a gradient that reads a variable would race with its decay, on TensorFlow 1.15 as well
            cost = tf.reduce_sum(dense * [1.0, -2.0, 0.5]) + tf.reduce_sum(skipped * [0.3, 0.2, -1.0])
            if "LARS" not in name:  # its sparse update ignores the scaling
                cost += tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 2]) * [[1.0, 2.0], [-1.0, 0.5]])
            updates.append(optimizer.minimize(cost, var_list=[dense, skipped, table]))
            variables.update({name + "/" + str(i): v for i, v in enumerate([dense, skipped, table])})
    averages = [v for v in tf.global_variables() if "MovingAverageOptimizer" in v.name]
    variables.update({"average/" + str(i): v for i, v in enumerate(sorted(averages, key=lambda v: v.name))})
    return variables, tf.group(*updates)


PARTS = (tf_layers, slim_layers, contrib_layers, rnn_cells, contrib_cells, seq2seq, images)


def build(tf):
    """Return the outputs by name, the variables of the optimizers by name, and the operation that trains them."""
    outputs = {}
    for part in PARTS:
        with tf.variable_scope(part.__name__):
            for name, tensor in part(tf).items():
                outputs[part.__name__ + "/" + name] = tensor
    with tf.variable_scope("optimizers"):
        variables, train_op = optimizers(tf)
    return outputs, {"optimizers/" + name: v for name, v in variables.items()}, train_op


def initial_value(variable):
    """Return values that depend on the name and shape only; positive for variances."""
    shape = variable.shape.as_list()
    values = np.random.RandomState(len(variable.op.name) + sum(shape)).normal(size=shape, scale=0.4)
    return abs(values) + 0.5 if "variance" in variable.op.name else values


def train(session, outputs, variables, train_op):
    """Return the values of the outputs, of all variables, and of the trained variables after some steps."""
    values = session.run(outputs)
    for _ in range(STEPS):
        session.run(train_op)
    values.update(session.run(variables))
    return values


def write(tf, folder):
    """Write a checkpoint and the outputs."""
    outputs, variables, train_op = build(tf)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        statistics = [v for v in tf.global_variables() if "moving_" in v.op.name]
        for variable in tf.trainable_variables() + statistics:
            variable.load(initial_value(variable), session)
        tf.train.Saver().save(session, os.path.join(folder, "model"), write_meta_graph=False, write_state=False)
        values = train(session, outputs, variables, train_op)
    values["shapes"] = shapes(tf)
    np.savez_compressed(os.path.join(folder, "expected.npz"), **values)


def read(tf, folder):
    """Load the checkpoint, and return the outputs."""
    outputs, variables, train_op = build(tf)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf.train.Saver().restore(session, os.path.join(folder, "model"))
        values = train(session, outputs, variables, train_op)
    values["shapes"] = shapes(tf)
    return values


def shapes(tf):
    """Return the names and shapes of all variables, sorted."""
    return np.array(sorted(f"{v.op.name} {v.shape.as_list()}" for v in tf.global_variables()))


def tensorflow_1():
    """Return plain TensorFlow 1.15, or on TensorFlow 2 `tf.compat.v1` with `tf.contrib` of tensorpack_lite."""
    import tensorflow

    if tensorflow.__version__.startswith("1."):
        return tensorflow
    from tensorpack_lite.tf1 import contrib as ours

    class View:
        contrib = ours

        def __getattr__(self, name):
            return getattr(tensorflow.compat.v1, name)

    tensorflow.compat.v1.disable_v2_behavior()
    return View()


if __name__ == "__main__":
    if sys.argv[1] == "plain":
        write(tensorflow_1(), sys.argv[2])
    else:
        buffer = io.BytesIO()
        np.savez(buffer, **read(tensorflow_1(), sys.argv[2]))
        sys.stdout.buffer.write(buffer.getvalue())
