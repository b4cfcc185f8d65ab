"""Gradient tapes of TensorFlow, and the reads of variables that they see. All names here are private ones of TensorFlow."""

from __future__ import annotations

from tensorflow.python.ops import resource_variable_ops as _resources

from . import tfv1 as tf

try:
    from tensorflow.python.eager import record as _tape
except ImportError:  # pragma: no cover (TF 1.15)
    from tensorflow.python.eager import tape as _tape


def read_made_with(variable: tf.Variable) -> tf.Tensor:
    """
    Return the read that was created with a resource variable, or its copy on the caching device.

    Gradient tapes and `tf.custom_gradient` see it like a new read.

    Why private: public functions create a new read, or do not return the copy, and only TensorFlow's own reads are
    recorded on tapes. Tried on 1.15, 2.15, 2.21.
    """
    value = variable._graph_element if variable._cached_value is None else variable._cached_value
    _resources.variable_accessed(variable)
    _tape.record_operation("ReadVariableOp", [value], [variable.handle], lambda gradient: [gradient])
    return value


def tape_is_recording() -> bool:
    """
    Return whether a `tf.GradientTape` records new operations.

    Why private: TensorFlow has no public function for it. Tried on 1.15, 2.15, 2.21.
    """
    return bool(_tape.could_possibly_record())
