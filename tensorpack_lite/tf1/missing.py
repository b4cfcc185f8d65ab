"""Names of TensorFlow 1.15 that `tf.compat.v1` of TensorFlow 2 lacks: replacements, and the error for a name without one."""

from __future__ import annotations

import difflib
import operator
from functools import lru_cache
from importlib import import_module
from typing import Any, Callable, Iterable, Mapping

from ..compat import tensorflow, tfv1
from ..compat.tf1_tensors import symbolic_tensor_class


def _experimental_list_devices() -> list[str]:
    """Return the names of all devices, such as "/device:CPU:0"."""
    return [device.name for device in tensorflow.config.list_logical_devices()]


def _keras_version() -> str:
    """Return the version of Keras 2."""
    return import_module(operator.attrgetter("keras.__name__")(tfv1).partition(".")[0]).__version__


# {"train.X": provider}: the dotted name below `tf`, and a function without arguments that returns the object. These take
# precedence over the names of TensorFlow. `tf.train`, `tf.losses`, `tf.metrics` and `tf.image` lack no name. `tf.layers`
# and `tf.nn.rnn_cell` come from tf_keras.
MISSING: Mapping[str, Callable[[], Any]] = {
    "Tensor": symbolic_tensor_class,  # scripts compare `type(x) is tf.Tensor`
    "keras.__version__": _keras_version,
    "config.experimental_list_devices": lambda: _experimental_list_devices,
}

# {dotted name below `tf`: a sentence} for names without a replacement. Those of `tf.contrib` are in `contrib/`.
REPLACEMENTS: Mapping[str, str] = {
    "estimator": "TensorFlow 2.16 removed it. Use tensorpack's trainers, or run the script on TensorFlow 2.15 or older.",
    "learn": "Use tensorpack's trainers, and tensorpack.dataflow.dataset for data sets such as MNIST.",
    "models": "It was an example of TensorFlow 0.x. Use tf.nn.rnn_cell, tf.nn.static_rnn and tf.contrib.legacy_seq2seq.",
    "nn.seq2seq": "Use tf.contrib.legacy_seq2seq.",
}

_SIMILARITY = 0.8  # of names that are offered: below it, "mul" resembles "matmul"


@lru_cache(maxsize=None)  # a script may ask again and again, by hasattr()
def describe_missing(name: str, known: Callable[[], Iterable[str]], replacement: str = "") -> str:
    """
    Return the message of the error for a name that does not exist.

    Args:
        name: the full name as scripts write it, such as "tf.train.Savr".
        known: returns the names that its module has. Similar ones are in the message if there is no replacement.
        replacement: a sentence that names the replacement.
    """
    if not replacement:
        public = [one for one in known() if not one.startswith("_")]
        similar = difflib.get_close_matches(name.rpartition(".")[2], public, 3, _SIMILARITY)
        replacement = f"Similar names: {', '.join(similar)}." if similar else ""
    advice = replacement or "Run the script on TensorFlow 1.15, or replace the name."
    return f"{name} does not exist in TensorFlow {tensorflow.__version__}. {advice}"
