"""Functions with another result or other arguments than their replacements."""

from __future__ import annotations

from typing import Sequence

from ..compat import TF_VERSION
from ..compat import tfv1 as tf
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
