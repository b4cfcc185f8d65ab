"""Functions with another result or other arguments than their replacements."""

from __future__ import annotations

from typing import Sequence

from ..compat import TF_VERSION, TensorSpec
from ..compat import tfv1 as tf
from ..graph_builder.allreduce import aggregate_grads_colocate
from ..tfutils.gradproc import GradientProcessor, GradVars
from ..tfutils.summary import add_moving_summary


def get_tf_version_number() -> float:
    """Return the version of TensorFlow as a float: 1.4 for TensorFlow 1.4.1, but 1.1 for 1.10."""
    return float("{}.{}".format(*TF_VERSION))


def summary_moving_average(tensors: Sequence[tf.Tensor] | None = None) -> None:
    """
    Summarize the moving averages of scalars, like `add_moving_summary(*tensors)`.

    Args:
        tensors: a list of scalar tensors, or one. None: nothing happens, because the callback MovingAverageSummary
            updates all averages.
    """
    if tensors is not None:
        add_moving_summary(*(tensors if isinstance(tensors, (list, tuple)) else [tensors]))


def apply_grad_processors(grads: GradVars, gradprocs: Sequence[GradientProcessor]) -> GradVars:
    """Apply the processors in order, and return the resulting gradients."""
    for processor in gradprocs:
        grads = processor.process(grads)
    return grads


def aggregate_grads(
    all_grads: Sequence[GradVars], colocation: bool = False, devices: object = None, average: bool = True
) -> GradVars:
    """Return the mean or the sum of the towers' gradients on the device of each variable; `devices` is ignored."""
    return aggregate_grads_colocate(all_grads, average)


def average_grads(all_grads: Sequence[GradVars], colocation: bool = True, devices: object = None) -> GradVars:
    """Return the mean of the towers' gradients, like `aggregate_grads`."""
    return aggregate_grads(all_grads, colocation, devices)


def backport_tensor_spec() -> type:
    """Return `tf.TensorSpec`."""
    return TensorSpec


def building_rtfd() -> bool:
    """Return False: no documentation is being built."""
    return False


def monkeypatch_tf_layers() -> None:
    """Do nothing: only TensorFlow 1.3 and older lacked a part of `tf.layers`."""
