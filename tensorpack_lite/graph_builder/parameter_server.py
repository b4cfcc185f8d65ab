"""Builder with shared variables, updated by the mean gradient of all towers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Sequence

from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..utils.checks import check_choice
from .allreduce import aggregate_grads_colocate
from .data_parallel import SharedVariablesBuilder


class SyncMultiGPUParameterServerBuilder(SharedVariablesBuilder):
    """
    Builder of towers that share their variables, with one update by the mean gradient.

    Args:
        towers: a list of GPU numbers.
        ps_device: the device of the variables: "cpu", or "gpu" to spread them over the GPUs.

    Attributes:
        grads: the mean gradients, a list of `(gradient, variable)`, after `build`.

    Raises:
        ValueError: `ps_device` is unknown.
    """

    grads: GradVars

    def __init__(self, towers: Sequence[int], ps_device: str) -> None:
        check_choice(f"{type(self).__name__}: ps_device", ps_device, ("cpu", "gpu"))
        super().__init__(towers, ["/cpu:0"] if ps_device == "cpu" else None)
        self.ps_device = ps_device

    def _build_train_op(self, grad_list: Sequence[GradVars], optimizer: tf.train.Optimizer) -> tf.Operation:
        self.grads = aggregate_grads_colocate(grad_list, average=True)
        with tf.device("/cpu:0") if self.ps_device == "cpu" else nullcontext():
            return optimizer.apply_gradients(self.grads, name="train_op")
