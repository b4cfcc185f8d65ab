"""
Layers of Keras in a tower: what to do about their variables, and an error for those of Keras 3.

Keras 3 has no graphs of TensorFlow 1. There, a layer creates the updates of its moving averages and of the seed of its masks, but
nothing runs them, and the losses of its regularizers belong to no collection.
"""

from __future__ import annotations

import os
import sys

from ... import compat
from ...compat import TF_VERSION, tensorflow
from ...compat import tfv1 as tf
from ...utils.naming import list_names

_HAS_KERAS_3 = TF_VERSION >= (2, 16)
_MOST_NAMES = 4
_TRAINER = "tensorpack_lite.contrib.keras.setup_keras_trainer"


def advice_on_keras() -> str:
    """Return the sentence that tells how to use Keras layers with the installed TensorFlow."""
    return f"If they belong to Keras layers, {_use_keras2()}"


def refuse_keras3(who: str) -> None:
    """
    Raise an error if the graph has variables of Keras 3 layers.

    Args:
        who: the tower that was built, for the message.

    Raises:
        RuntimeError: the graph has such variables.
    """
    names = _find_variables_of_keras3()
    if names:
        raise RuntimeError(
            f"{who}: these variables belong to layers of Keras 3: {list_names(names, _MOST_NAMES)}. In graphs, Keras 3 never "
            "updates moving averages, draws the same mask of Dropout in each step, and adds no loss of a regularizer. Use "
            f"the layers of tensorpack_lite instead, such as FullyConnected, Conv2D, BatchNorm and Dropout. Or {_use_keras2()}"
        )


def _use_keras2() -> str:
    version = ".".join(str(part) for part in TF_VERSION[:2])
    package = f'the package tf_keras (pip install "tf_keras=={version}.*")'
    return f"use {_TRAINER} with layers of Keras 2, which is {package if _HAS_KERAS_3 else 'tf.keras'}."


def _find_variables_of_keras3() -> list[str]:
    """Return the names of the variables in the default graph whose creator is Keras 3."""
    keras = sys.modules.get("keras")
    if keras is None or str(getattr(keras, "__version__", "")).split(".")[0] != "3":
        return []
    passed_on = tuple(os.path.dirname(file or "") + os.sep for file in (tensorflow.__file__, compat.__file__))
    of_keras = os.path.dirname(keras.__file__ or "") + os.sep
    return [
        op.name
        for op in tf.get_default_graph().get_operations()
        if op.type == "VarHandleOp" and _creator(op, passed_on).startswith(of_keras)
    ]


def _creator(op: tf.Operation, passed_on: tuple[str, ...]) -> str:
    """Return the file of the innermost line that created an operation, outside of the given directories."""
    files = [frame[0] for frame in map(tuple, op.traceback or ())]
    return next((file for file in reversed(files) if not file.startswith(passed_on)), "")
