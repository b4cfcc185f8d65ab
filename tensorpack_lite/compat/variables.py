"""The function that creates the variables of layers: `tf.get_variable`, or a script's replacement of it."""

from __future__ import annotations

from typing import Any

from tensorflow.python.ops.variable_scope import get_variable as _original

from . import tensorflow, tfv1


def get_variable(name: str, shape: object = None, **kwargs: object) -> Any:
    """
    Call the script's replacement of `tensorflow.get_variable` or `tensorflow.compat.v1.get_variable`, or else the original.

    Scripts replace it to quantize all weights. The two names are attributes of two modules, on every version, so an assignment to
    one of them does not change the other. If both are replaced, the first one counts.

    Why private: the original is recognized even if the script has replaced it before it imports this library. Tried on 1.15,
    2.15, 2.21.

    Args:
        name: the name of the variable.
        shape: its shape; None if the initializer is a tensor.
        **kwargs: other arguments of `tf.get_variable`, always by keyword, since replacements have few parameters.
    """
    # TF 1.15 logs a deprecation for each name that is read as an attribute, so it is read from the dictionary.
    function = vars(tensorflow).get("get_variable", _original)
    return (tfv1.get_variable if function is _original else function)(name, shape, **kwargs)
