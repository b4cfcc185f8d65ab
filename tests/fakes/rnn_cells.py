"""
Results of the recurrent functions of TensorFlow 1.15: variables, outputs, final states and gradients of each case.

tests/data/rnn_cells.npz was written with TensorFlow 1.15 by running this file:
    PYTHONPATH=.:tests python tests/fakes/rnn_cells.py
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict

import numpy as np

from tensorpack_lite.compat import tensorflow
from tensorpack_lite.compat import tfv1 as tf

__all__ = ["CASES", "LENGTHS", "SEQUENCES", "UNITS", "gradients_of", "read_reference", "run_reference"]

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "rnn_cells.npz")
UNITS = 5
LENGTHS = np.array([7, 0, 3, 6], "int32")
SEQUENCES = np.random.RandomState(0).uniform(-1, 1, [4, 7, 3]).astype("float32")


def _lstm() -> Any:
    return tensorflow.nn.rnn_cell.LSTMCell(UNITS)


def _gru() -> Any:
    return tensorflow.nn.rnn_cell.GRUCell(UNITS)


def _stack(make_cell: Callable[[], Any]) -> Any:
    return tensorflow.nn.rnn_cell.MultiRNNCell([make_cell(), make_cell()])


def _dynamic_rnn(cell: Any, x: Any) -> Any:
    return tensorflow.nn.dynamic_rnn(cell, x, LENGTHS, dtype=x.dtype)


def _with_initial_state(make_cell: Callable[[], Any], x: Any) -> Any:
    _, state = tensorflow.nn.dynamic_rnn(make_cell(), x, dtype=x.dtype, scope="first")
    return tensorflow.nn.dynamic_rnn(make_cell(), x, LENGTHS, initial_state=state, scope="second")


def _bidirectional(make_cell: Callable[[], Any], x: Any) -> Any:
    outputs, state = tensorflow.nn.bidirectional_dynamic_rnn(make_cell(), make_cell(), x, LENGTHS, dtype=x.dtype)
    return tf.concat(outputs, 2), state


def _stacked_bidirectional(make_cell: Callable[[], Any], x: Any) -> Any:
    outputs, forward, backward = tensorflow.contrib.rnn.stack_bidirectional_dynamic_rnn(
        [make_cell(), make_cell()], [make_cell(), make_cell()], x, sequence_length=LENGTHS, dtype=x.dtype
    )
    return outputs, (forward, backward)


CASES: Dict[str, Callable[[Any], Any]] = {
    "LSTM-plain": lambda x: tensorflow.nn.dynamic_rnn(_lstm(), x, dtype=x.dtype),
    "LSTM-state": lambda x: _with_initial_state(_lstm, x),
    "LSTM-stacked": lambda x: _dynamic_rnn(_stack(_lstm), x),
    "LSTM-bidirectional": lambda x: _bidirectional(_lstm, x),
    "LSTM-stacked_bidirectional": lambda x: _stacked_bidirectional(_lstm, x),
    "GRU-plain": lambda x: tensorflow.nn.dynamic_rnn(_gru(), x, dtype=x.dtype),
    "GRU-state": lambda x: _with_initial_state(_gru, x),
    "GRU-stacked": lambda x: _dynamic_rnn(_stack(_gru), x),
    "GRU-bidirectional": lambda x: _bidirectional(_gru, x),
    "GRU-stacked_bidirectional": lambda x: _stacked_bidirectional(_gru, x),
}


def gradients_of(x: Any, outputs: Any, state: Any) -> Dict[str, Any]:
    """Return the outputs, the parts of the state, and the gradients of a cost on both, for x and each variable, by name."""
    parts = tf.nest.flatten(state)
    cost = sum(tf.reduce_sum(tf.sin(3 * part) * (i + 1)) for i, part in enumerate([outputs, *parts]))
    variables = tf.trainable_variables()
    gradients = tf.gradients(cost, [x, *variables])
    tensors = {"outputs": outputs, "gradient/x": gradients[0]}
    tensors.update((f"state/{i}", part) for i, part in enumerate(parts))
    tensors.update((f"gradient/{v.op.name}", g) for v, g in zip(variables, gradients[1:]))
    return tensors


def run_reference(case: str) -> Dict[str, np.ndarray]:
    """Run one case on TensorFlow 1.15 with random variables. Return the results of `gradients_of`, and `variable/<name>`."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, None, 3])
        with tf.variable_scope("model"):
            tensors = gradients_of(x, *CASES[case](x))
        rng = np.random.RandomState(len(case))
        values = {}
        for variable in tf.trainable_variables():
            value = rng.uniform(-1, 1, variable.shape.as_list()).astype("float32")
            variable.load(value, session)
            values[f"variable/{variable.op.name}"] = value
        values.update(session.run(tensors, {x: SEQUENCES}))
        return values


def read_reference(case: str) -> Dict[str, np.ndarray]:
    """Read the stored results of TensorFlow 1.15 for a case, in the form of `run_reference`."""
    with np.load(PATH) as file:
        return {key[len(case) + 1 :]: file[key] for key in file.files if key.startswith(f"{case}:")}


if __name__ == "__main__":
    found = {f"{case}:{name}": value for case in CASES for name, value in run_reference(case).items()}
    np.savez_compressed(PATH, **found)
