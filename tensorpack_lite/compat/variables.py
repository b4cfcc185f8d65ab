"""The function that creates the variables of layers, and the slices in which partitioned variables are saved."""

from __future__ import annotations

from typing import Any, NamedTuple, Tuple

from tensorflow.python.ops.variable_scope import get_variable as _original
from tensorflow.python.ops.variables import Variable as _Variable

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


class SaveSlice(NamedTuple):
    """
    The place of a variable in a partitioned one.

    Attributes:
        full_name: the name of the whole in a checkpoint.
        full_shape: the shape of the whole.
        offset: the index of the part's first element.
        shape: the shape of the part.
    """

    full_name: str
    full_shape: Tuple[int, ...]
    offset: Tuple[int, ...]
    shape: Tuple[int, ...]


def save_slice(variable: Any) -> SaveSlice | None:
    """
    Return the slice that `tf.train.Saver` saves for a part of a partitioned variable; None for any other variable.

    Why private: TensorFlow has no public function for it. Tried on 1.15, 2.15, 2.21.
    """
    info = getattr(variable, "_save_slice_info", None)
    if info is None:
        return None
    full_shape, offset, shape = (tuple(map(int, v)) for v in (info.full_shape, info.var_offset, info.var_shape))
    return SaveSlice(info.full_name, full_shape, offset, shape)


def save_like(variable: Any, original: Any) -> None:
    """
    Let `tf.train.Saver` save a variable in slices, if another one is a part of a partitioned variable.

    TensorFlow does so for the slots of optimizers.

    Why private: TensorFlow has no public function for it. Tried on 1.15, 2.15, 2.21.

    Args:
        variable: a variable named `<name of the original>/<suffix>`, with the same shape.
        original: the other variable.
    """
    part = save_slice(original)
    if part is not None:
        name = part.full_name + variable.op.name[len(original.op.name) :]
        info = _Variable.SaveSliceInfo(name, list(part.full_shape), list(part.offset), list(part.shape))
        variable._set_save_slice_info(info)
