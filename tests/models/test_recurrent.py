"""Tests of models/recurrent.py, in addition to the laws of layers."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from fakes.rnn_cells import CASES, LENGTHS, SEQUENCES, UNITS, gradients_of, read_reference, run_reference

from tensorpack_lite import models
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import GRU, LSTM, FullyConnected, l2_regularizer
from tensorpack_lite.models.recurrent import LSTMStateTuple
from tensorpack_lite.tfutils.argscope import argscope
from tensorpack_lite.tfutils.tower.context import TowerContext
from tensorpack_lite.tfutils.varreplace import freeze_variables

BOTH = pytest.mark.parametrize("layer", [LSTM, GRU], ids=["LSTM", "GRU"])


def cases():
    """All cases; the quick set has one of each layer."""
    quick = {"LSTM-bidirectional", "GRU-state"}
    return pytest.mark.parametrize(
        "case", [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
    )


def placeholder(shape=(None, None, 3), dtype=tf.float32):
    return tf.placeholder(dtype, list(shape), "x")


def flat(outputs, state):
    """Return the outputs and all parts of the state as one list."""
    return [outputs, *tf.nest.flatten(state)]


def assert_close(expected, got, tolerance=1e-5):
    """Assert that all arrays agree to an absolute tolerance."""
    for one, other in zip(expected, got):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def build_case(x, case):
    """Build a case of fakes/rnn_cells.py with the layers."""
    kind, form = case.split("-")
    layer = getattr(models, kind)
    if form == "plain":
        return layer("rnn", x, UNITS)
    if form == "state":
        _, state = layer("first", x, UNITS)
        return layer("second", x, UNITS, initial_state=state, sequence_length=LENGTHS)
    with argscope(layer, sequence_length=LENGTHS):
        if form == "stacked":
            return layer("rnn", x, UNITS, 2)
        if form == "bidirectional":
            return layer("bidirectional_rnn", x, UNITS, bidirectional=True)
        return layer("stack_bidirectional_rnn", x, UNITS, 2, bidirectional=True)


class TestTensorFlow1:
    @pytest.mark.matrix
    @pytest.mark.slow
    @cases()
    @pytest.mark.parametrize("shape", [(None, None, 3), SEQUENCES.shape], ids=["loop", "unrolled"])
    @pytest.mark.any_tensorflow
    def test_equal_by_name(self, sess, case, shape):
        """With the variables of TensorFlow 1.15 under the same names, outputs, states and gradients agree to 1e-5."""
        reference, x = read_reference(case), placeholder(shape)
        with tf.variable_scope("model"):
            tensors = gradients_of(x, *build_case(x, case))
        names = [f"variable/{v.op.name}" for v in tf.trainable_variables()]
        assert names == [name for name in reference if name.startswith("variable/")]
        for name, variable in zip(names, tf.trainable_variables()):
            variable.load(reference[name], sess)
        values = sess.run(tensors, {x: SEQUENCES})
        for name, value in values.items():
            scale = max(1, np.abs(reference[name]).max())
            np.testing.assert_allclose(value / scale, reference[name] / scale, rtol=0, atol=1e-5, err_msg=name)

    @pytest.mark.matrix
    @pytest.mark.skipif(not tf.__version__.startswith("1."), reason="TensorFlow 2 has no dynamic_rnn")
    @cases()
    def test_the_reference_is_what_tensorflow_computes(self, case):
        """The file of reference values is what TensorFlow 1.15 computes here."""
        reference, values = read_reference(case), run_reference(case)
        assert list(reference) == list(values)
        for name, value in values.items():
            np.testing.assert_allclose(value, reference[name], rtol=1e-4, atol=1e-5, err_msg=name)

    def test_initial_values_of_a_scope(self, sess):
        """The initializer of the variable scope makes kernels, as in rnn_cell; biases are 0, and 1 for the gates of a GRU."""
        x = placeholder()
        with tf.variable_scope("model", initializer=tf.constant_initializer(0.25)):
            lstm, _ = LSTM("lstm", x, 2)
            gru, _ = GRU("gru", x, 2)
        sess.run(tf.global_variables_initializer())
        values = sess.run([*lstm.variables.all(), *gru.variables.all()])
        assert [0.25, 0, 0.25, 1, 0.25, 0] == [value.max() for value in values] == [v.min() for v in values]


def has_loop(outputs):
    """Return whether a graph has a loop, of either control flow."""
    types = {op.type for op in outputs.graph.get_operations()}
    return bool(types & {"Enter", "While", "StatelessWhile"})


class TestUnroll:
    @BOTH
    @pytest.mark.parametrize(
        ("num_steps", "unroll", "expected"),
        [
            (None, None, True),
            (64, None, False),
            (65, None, True),
            (2, False, True),
            (65, True, False),
        ],
    )
    def test_when_there_is_a_loop(self, layer, num_steps, unroll, expected):
        """The layer has a loop if the number of steps is unknown or more than 64, unless the argument says otherwise."""
        outputs, _ = layer("rnn", placeholder([2, num_steps, 3]), 2, unroll=unroll)
        assert expected == has_loop(outputs)

    @pytest.mark.matrix
    @pytest.mark.slow
    @BOTH
    @pytest.mark.parametrize("time_major", [False, True])
    @pytest.mark.parametrize("length", [None, [4, 1]])
    def test_equal_to_the_loop(self, sess, layer, time_major, length):
        """Outputs, state and gradients are those of the loop, forward and backward, with padding and without."""
        x = placeholder([4, 2, 3] if time_major else [2, 4, 3])
        found = []
        for unroll in (False, True):
            with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
                tensors = flat(
                    *layer(
                        "rnn",
                        x,
                        2,
                        2,
                        bidirectional=True,
                        time_major=time_major,
                        sequence_length=length,
                        unroll=unroll,
                    )
                )
            cost = tf.add_n([tf.reduce_sum(tf.square(one)) for one in tensors])
            found.append([*tensors, *tf.gradients(cost, [x, *tf.trainable_variables()])])
        sess.run(tf.global_variables_initializer())
        values = np.random.RandomState(0).randn(*x.shape.as_list())
        assert_close(*sess.run(found, {x: values}))

    @pytest.mark.matrix
    @pytest.mark.slow
    @BOTH
    @pytest.mark.parametrize("place", ["plain", "map_fn", "cond"])
    def test_the_gradient_of_the_kernel_is_exact(self, sess, layer, place):
        """
        Gradients, and gradients of these, are those of the plain products of a tower for inference, also inside a loop or a branch.
        """
        x = placeholder([2, 10, 3])
        around = {
            "plain": lambda make: make(x),
            "map_fn": lambda make: tf.map_fn(make, tf.stack([x, 2 * x])),
            "cond": lambda make: tf.cond(tf.reduce_sum(x) > 1e3, lambda: make(2 * x), lambda: make(x)),
        }[place]

        def total(x):
            tensors = flat(*layer("rnn", x, 2, bidirectional=True, sequence_length=[10, 4]))
            return tf.add_n([tf.reduce_sum(tf.square(one)) for one in tensors])

        found = []
        for context in (nullcontext(), TowerContext("", is_training=False)):
            with context, tf.variable_scope("model", reuse=tf.AUTO_REUSE):
                cost = tf.reduce_sum(around(total))
            sources = [x, *tf.trainable_variables()]
            first = tf.gradients(cost, sources)
            found.append(first)
            if place == "plain":  # TensorFlow 1 has no second gradients of loops
                found[-1] = first + tf.gradients(tf.add_n([tf.reduce_sum(tf.square(one)) for one in first]), sources)
        sess.run(tf.global_variables_initializer())
        for got, expected in zip(*sess.run(found, {x: np.random.RandomState(0).randn(2, 10, 3)})):
            scale = np.abs(expected).max()
            assert scale > 1e-3
            np.testing.assert_allclose(got / scale, expected / scale, rtol=0, atol=1e-5)

    @BOTH
    def test_no_operations_for_gradients_in_inference(self, layer):
        """In a tower for inference, the graph has no operations that only serve gradients."""
        kinds = {}
        for training in (True, False):
            with tf.Graph().as_default() as graph, TowerContext("", is_training=training):
                layer("rnn", placeholder([2, 3, 3]), 2)
                kinds[training] = {op.type for op in graph.get_operations()}
        assert {"IdentityN"} == kinds[True] - kinds[False]

    @pytest.mark.parametrize(("layer", "per_piece"), [(LSTM, 2), (GRU, 3)], ids=["LSTM", "GRU"])
    def test_eight_steps_share_the_gradient_of_the_kernel(self, layer, per_piece):
        """Eight steps share the products of the form A' B, which are as large as the parts of the kernels."""
        numbers = []
        for num_steps in (3, 8, 9):
            with tf.Graph().as_default() as graph:
                outputs, _ = layer("rnn", placeholder([7, num_steps, 3]), 5)
                tf.gradients(outputs, tf.trainable_variables())
                products = [op for op in graph.get_operations() if op.type == "MatMul"]
                numbers.append(sum(op.get_attr("transpose_a") for op in products))
        assert numbers[0] == numbers[1]
        assert numbers[1] + per_piece == numbers[2]


class TestState:
    @pytest.mark.slow
    @BOTH
    @pytest.mark.parametrize("num_layers", [1, 2])
    def test_it_continues_a_sequence(self, sess, layer, num_layers):
        """Two parts of a sequence, the second one with the state of the first, give the result of the whole sequence."""
        x, cut = placeholder(), 3
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            whole, end = layer("rnn", x, UNITS, num_layers)
            first, state = layer("rnn", x[:, :cut], UNITS, num_layers)
            second, last = layer("rnn", x[:, cut:], UNITS, num_layers, initial_state=state)
        sess.run(tf.global_variables_initializer())
        expected, got = sess.run([flat(whole, end), flat(tf.concat([first, second], 1), last)], {x: SEQUENCES})
        assert_close(expected, got)

    @pytest.mark.slow
    def test_forms(self):
        """The state is an LSTMStateTuple or a tensor; with layers a tuple of them; with directions a pair of these."""
        x = placeholder()
        _, plain = LSTM("plain", x, 2)
        assert isinstance(plain, LSTMStateTuple)
        assert [None, 2] == plain.c.shape.as_list() == plain.h.shape.as_list()
        _, stacked = LSTM("stacked", x, 2, 3)
        _, pair = LSTM("both", x, 2, bidirectional=True)
        assert [LSTMStateTuple] * 5 == [type(state) for state in (*stacked, *pair)]
        _, directions = LSTM("stacked_both", x, 2, 3, bidirectional=True)
        assert [3, 3] == [len(layers) for layers in directions]
        _, plain = GRU("gru", x, 2)
        assert [None, 2] == plain.shape.as_list()
        _, directions = GRU("gru_both", x, 2, 3, bidirectional=True)
        assert [[[None, 2]] * 3] * 2 == [[state.shape.as_list() for state in layers] for layers in directions]

    def test_plain_tuples_and_arrays_as_initial_state(self, sess):
        """A pair (c, h) of arrays of another floating dtype is taken; the state of the step before padding stays."""
        c, h = np.full([4, 2], 0.5), np.full([4, 2], 0.25)
        outputs, state = LSTM("rnn", placeholder(), 2, initial_state=[c, h], sequence_length=[0, 0, 0, 0])
        sess.run(tf.global_variables_initializer())
        outputs, state = sess.run([outputs, state], {"x:0": SEQUENCES})
        assert_close([np.zeros([4, 7, 2]), c, h], [outputs, *state], 0)

    def test_known_batch_sizes(self, log_lines):
        """A batch size that the inputs or the state have is that of both results. Shapes are logged; num_units is units."""
        outputs, state = GRU("rnn", placeholder(), num_units=2, initial_state=tf.zeros([4, 2]))
        assert [[4, None, 2], [4, 2]] == [outputs.shape.as_list(), state.shape.as_list()]
        initial = (tf.placeholder(tf.float32, [None, 2]),) * 2
        outputs, state = LSTM("logged", placeholder([4, 7, 3]), 2, initial_state=initial)
        assert [[4, 7, 2], [4, 2], [4, 2]] == [part.shape.as_list() for part in flat(outputs, state)]
        assert "'logged'    : [4, 7, 3] --> [4, 7, 2], LSTMStateTuple" == log_lines[-1]


class TestPadding:
    @BOTH
    @pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
    def test_equal_to_shorter_sequences(self, sess, layer, bidirectional):
        """Each padded sequence has the outputs and states of the sequence without padding, and zeros behind it."""
        x, length = placeholder(), tf.placeholder(tf.int64, [None])
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            padded = flat(*layer("rnn", x, UNITS, bidirectional=bidirectional, sequence_length=length))
            exact = flat(*layer("rnn", x, UNITS, bidirectional=bidirectional))
        sess.run(tf.global_variables_initializer())
        outputs, *states = sess.run(padded, {x: SEQUENCES, length: LENGTHS})
        for row, count in enumerate(LENGTHS):
            assert not outputs[row, count:].any()
            if count:
                expected, *last = sess.run(exact, {x: SEQUENCES[row : row + 1, :count]})
                assert_close([expected[0], *[s[0] for s in last]], [outputs[row, :count], *[s[row] for s in states]])
            else:
                assert not any(state[row].any() for state in states)

    @BOTH
    def test_a_hole_in_the_mask(self, sess, layer):
        """Steps where the mask is 0 are skipped, wherever they are."""
        x, mask = placeholder(), np.array([1, 1, 0, 1, 0, 0, 1])
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            masked = flat(*layer("rnn", x, UNITS, mask=np.tile(mask, [4, 1])))
            exact = flat(*layer("rnn", tf.boolean_mask(x, mask.astype(bool), axis=1), UNITS))
        sess.run(tf.global_variables_initializer())
        (outputs, *states), (expected, *last) = sess.run([masked, exact], {x: SEQUENCES})
        assert_close([expected, *last], [outputs[:, mask.astype(bool)], *states])
        assert not outputs[:, ~mask.astype(bool)].any()

    def test_mask_and_length(self, sess):
        """With a mask and lengths, a step is valid if both say so."""
        x, mask = placeholder(), np.array([[1, 0, 1, 1, 1, 1, 1]] * 4)
        outputs, _ = GRU("rnn", x, UNITS, mask=mask, sequence_length=LENGTHS)
        sess.run(tf.global_variables_initializer())
        valid = sess.run(outputs, {x: SEQUENCES}).any(axis=2)
        np.testing.assert_array_equal(mask.astype(bool) & (np.arange(7) < LENGTHS[:, None]), valid)

    @BOTH
    @pytest.mark.parametrize("unroll", [False, True], ids=["loop", "unrolled"])
    @pytest.mark.parametrize("bidirectional", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_no_influence_of_padding(self, sess, layer, unroll, bidirectional):
        """Values in the padding, also NaN, change no output, state or gradient of a variable, and get no gradient."""
        is_valid = np.arange(3) < np.array([[2], [0], [3]])
        x = placeholder([3, 3, 3])
        settings = {"bidirectional": bidirectional, "unroll": unroll, "sequence_length": is_valid.sum(1)}
        tensors = flat(*layer("rnn", x, 2, **settings))
        cost = sum(tf.reduce_sum(tensor) for tensor in tensors)
        of_x, *of_variables = tf.gradients(cost, [x, *tf.trainable_variables()])
        sess.run(tf.global_variables_initializer())
        results = []
        for filling in (0, 100, np.nan, np.inf):
            value = np.where(is_valid[:, :, None], SEQUENCES[:3, :3], filling)
            results.append(sess.run([of_x, *tensors, *of_variables], {x: value}))
        for expected, *got in zip(*results):
            for value in got:
                np.testing.assert_array_equal(expected, value)
        np.testing.assert_array_equal(is_valid, results[0][0].any(axis=2))


class TestGraph:
    @BOTH
    def test_time_major(self, sess, layer):
        """With time_major, inputs, mask and outputs have the steps first, and nothing else changes."""
        x, mask = placeholder(), SEQUENCES[:, :, 0] > -0.5
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            expected = flat(*layer("rnn", x, UNITS, mask=mask, sequence_length=LENGTHS))
            swapped, state = layer(
                "rnn",
                tf.transpose(x, [1, 0, 2]),
                UNITS,
                mask=mask.T,
                sequence_length=LENGTHS,
                time_major=True,
            )
        sess.run(tf.global_variables_initializer())
        assert_close(*sess.run([expected, flat(tf.transpose(swapped, [1, 0, 2]), state)], {x: SEQUENCES}))

    @pytest.mark.slow
    @BOTH
    def test_sizes_may_change(self, sess, layer):
        """Batch size and number of steps may differ from run to run, and a single step is a sequence, too."""
        x = placeholder()
        outputs, _ = layer("rnn", x, 2, 2, bidirectional=True)
        sess.run(tf.global_variables_initializer())
        for shape in ([1, 1, 3], [5, 2, 3], [2, 9, 3]):
            assert [*shape[:2], 4] == list(sess.run(outputs, {x: np.ones(shape)}).shape)

    @BOTH
    @pytest.mark.parametrize("num_steps", [None, 4])
    def test_variables_are_read_once(self, layer, num_steps):
        """A tower for training and one for inference read each variable once together, outside of the loops."""
        x = placeholder([None, num_steps, 3])
        with TowerContext("tower0", is_training=True):
            layer("rnn", x, 2)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), TowerContext("validation", is_training=False):
            layer("rnn", x, 2)
        for variable in tf.trainable_variables():
            reads = [op for op in variable.handle.consumers() if op.type == "ReadVariableOp"]
            used = [op for op in reads if op.outputs[0].consumers()]
            assert 1 == len(used)

    def test_regularizer(self, sess):
        """kernel_regularizer collects one cost for each kernel."""
        GRU(
            "rnn",
            placeholder(),
            2,
            kernel_regularizer=l2_regularizer(2.0),
            kernel_initializer=tf.ones_initializer(),
        )
        sess.run(tf.global_variables_initializer())
        costs = sess.run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
        assert [5 * 4, 5 * 2] == costs

    def test_frozen_variables(self):
        """Inside freeze_variables, no gradient reaches the variables; those of the inputs pass."""
        x = placeholder()
        with freeze_variables():
            outputs, _ = LSTM("rnn", FullyConnected("fc", x[:, 0], 6)[:, None, :], 2)
        assert [None] * 4 == tf.gradients(outputs, tf.trainable_variables())
        assert tf.gradients(outputs, x)[0] is not None

    @pytest.mark.slow
    def test_variables_of_the_outputs(self):
        """`.variables` of several cells have prefixes for direction and layer."""
        outputs, _ = LSTM("rnn", placeholder(), 2, 2, bidirectional=True)
        assert "rnn/cell_1/bidirectional_rnn/bw/lstm_cell/bias" == outputs.variables.cell_1_bw_bias.op.name
        outputs, _ = GRU("gru", placeholder(), 2, 2)
        assert "gru/multi_rnn_cell/cell_0/gru_cell/gates/kernel" == outputs.variables.cell_0_gates_kernel.op.name
