"""Shared variables; the gradients of all towers are averaged, and applied once."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from .allreduce import aggregate_grads_colocate
from .data_parallel import SharedVariablesBuilder

__all__ = ["SyncMultiGPUParameterServerBuilder"]


class SyncMultiGPUParameterServerBuilder(SharedVariablesBuilder):
    """
    Builds towers that share their variables, and one update of these by the mean gradient.

    Args:
        towers: a list of GPU numbers.
        ps_device: where the variables live: "cpu", or "gpu" for being spread over the GPUs.

    Attributes:
        grads: the mean gradients, a list of `(gradient, variable)`; from `build` on.

    Raises:
        ValueError: another `ps_device`.

    tensorpack: same; there variables go to the first GPU on TF 2 whatever `ps_device` says.
    """

    grads: GradVars

    def __init__(self, towers: Sequence[int], ps_device: str) -> None:
        if ps_device not in ("cpu", "gpu"):
            raise ValueError(f"{type(self).__name__}: ps_device is {ps_device!r}, wanted 'cpu' or 'gpu'.")
        super().__init__(towers, ["/cpu:0"] if ps_device == "cpu" else None)
        self.ps_device = ps_device

    def _build_train_op(self, grad_list: Sequence[GradVars], optimizer: Any) -> Any:
        self.grads = aggregate_grads_colocate(grad_list, average=True)
        with ExitStack() as stack:
            if self.ps_device == "cpu":
                stack.enter_context(tf.device("/cpu:0"))
            return optimizer.apply_gradients(self.grads, name="train_op")
