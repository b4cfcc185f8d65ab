"""A copy of the variables on each device; gradients are all-reduced, so that the copies stay equal."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any, Callable, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from ..tfutils.common import value_of
from ..tfutils.gradproc import GradVars
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.varreplace import custom_getter_scope, override_to_local_variable
from ..utils import logger
from .allreduce import (
    Grads,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)
from .data_parallel import DataParallelBuilder, apply_one_after_another, shared_zeros
from .packing import GradientPacker

__all__ = ["SyncMultiGPUReplicatedBuilder"]

_MODES = ("nccl", "cpu", "hierarchical", "gpu", "collective")
_OF_TOWER = re.compile(r"tower([0-9]+)/(.+)")


class SyncMultiGPUReplicatedBuilder(DataParallelBuilder):
    """
    Builds towers with variables of their own, one update of each by the reduced gradients, and the operation that makes all
    copies equal to the first.

    Args:
        towers: a list of GPU numbers.
        average: reduce to the mean; else to the sum.
        mode: "cpu" or "gpu" (one device after another does the sums), "hierarchical" (8 devices), "nccl" or "collective"
            (operations that all devices take part in).
        devices: of the towers; None means `/gpu:<number>`.

    Attributes:
        grads: the reduced gradients of the first tower, a list of `(gradient, variable)`; from `build` on.

    Raises:
        ValueError: another mode, or "hierarchical" with a number of towers that is not 8.

    tensorpack: same; there Adam's beta powers advance once for each tower.
    """

    grads: GradVars

    def __init__(
        self, towers: Sequence[int], average: bool, mode: str, devices: Sequence[str] | None = None
    ) -> None:
        super().__init__(towers)
        if mode not in _MODES:
            raise ValueError(f"{type(self).__name__}: mode is {mode!r}, wanted one of {', '.join(_MODES)}.")
        if mode == "hierarchical" and len(self.towers) != 8:
            raise ValueError(
                f"{type(self).__name__}: mode 'hierarchical' is for 8 towers, got {len(self.towers)}. Use mode='gpu'."
            )
        self._average = average
        self._mode = mode
        self.devices = [f"/gpu:{gpu}" for gpu in self.towers] if devices is None else list(devices)

    def call_for_each_tower(self, tower_fn: Callable[[], Any]) -> list[Any]:  # type: ignore[override]
        """
        Build the towers.

        Args:
            tower_fn: builds one tower; returns its `(gradient, variable)` pairs.

        Returns:
            The pairs of each tower.
        """

        def build_tower() -> Any:
            with _same_initial_values(get_current_tower_context().vs_name):  # type: ignore[union-attr]
                return tower_fn()

        use_vs = [index > 0 for index in range(len(self.towers))]
        return self.build_on_towers(self.towers, build_tower, self.devices, use_vs)

    def build(self, grad_list: Sequence[GradVars], get_opt_fn: Callable[[], Any]) -> tuple[Any, Any]:
        """
        Build the updates.

        Args:
            grad_list: the pairs of each tower.
            get_opt_fn: gives the optimizer.

        Returns:
            The operation `train_op`, and the one that gives all copies the values of the first tower's variables: to be run
            once they are initialized or restored. None for one tower.

        Raises:
            ValueError: the towers have gradients of different variables; or they have trainable variables that were not made
                with `tf.get_variable`.
        """
        self._check_grad_list(grad_list)
        all_grads, all_vars = split_grad_list(grad_list)
        grad_list = merge_grad_list(self._reduce(all_grads), all_vars)
        self.grads = grad_list[0]
        optimizer = get_opt_fn()

        def update_tower(index: int) -> Any:
            tower = f"tower{index}" if index > 0 else ""
            local = override_to_local_variable(enable=index > 0)
            with tf.device(self.devices[index]), local, _same_initial_values(tower):
                return optimizer.apply_gradients(grad_list[index], name=f"apply_grad_{index}")

        with tf.name_scope("apply_gradients"), shared_zeros():
            updates = apply_one_after_another(
                optimizer,
                [lambda index=index: update_tower(index) for index in range(len(self.towers))],  # type: ignore[misc]
            )
        train_op = tf.group(*updates, name="train_op")
        with tf.name_scope("sync_variables"):
            return train_op, self._sync_with_main_tower()

    def _reduce(self, all_grads: Grads) -> Grads:
        num_towers = len(self.towers)
        if num_towers == 1:
            return all_grads
        mode = self._mode
        if mode == "nccl" and not _nccl_can(all_grads[0]):
            mode = "gpu"
        if mode in ("cpu", "gpu"):
            devices = ["/cpu:0"] if mode == "cpu" else self.devices
            return [allreduce_grads_naive(all_grads, devices=devices, average=self._average)] * num_towers
        if mode == "nccl":
            return allreduce_grads(all_grads, self._average, "nccl", self.devices)
        packer = GradientPacker(num_towers if mode == "hierarchical" else 1)
        if not packer.compute_strategy(all_grads[0]):
            return self._reduce_together(mode, all_grads)
        packs = packer.pack_all(all_grads, self.devices)
        return packer.unpack_all(self._reduce_together(mode, packs), self.devices)

    def _reduce_together(self, mode: str, all_grads: Grads) -> Grads:
        if mode == "hierarchical":
            return allreduce_grads_hierarchical(all_grads, self.devices, self._average)
        return allreduce_grads(all_grads, self._average, mode, self.devices)

    def _sync_with_main_tower(self) -> Any:
        """Make the operation that assigns the main tower's variables to their copies; None if there are no copies."""
        variables = tf.global_variables() + tf.local_variables()
        by_name = {var.op.name: var for var in variables}
        # each tower counts for itself
        metrics = {var.op.name for var in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)}
        assignments, unknown = [], []
        for var in variables:
            match = _OF_TOWER.fullmatch(var.op.name)
            if match is None:
                continue
            original = by_name.get(match.group(2)) if int(match.group(1)) > 0 else None
            if original is None:
                if var.op.name not in metrics:
                    unknown.append(var)
                continue
            with tf.device(var.device):
                assignments.append(var.assign(value_of(original.op.outputs[0]), read_value=False))
        if unknown:
            self._tell_of_raw_variables(unknown)
        if not assignments:
            return None
        logger.info(f"{len(assignments)} variables of later towers are copies of the first tower's.")
        return tf.group(*assignments, name="sync_variables_from_main_tower")

    def _tell_of_raw_variables(self, variables: Sequence[Any]) -> None:
        message = self._describe_raw_variables(variables)
        trained = tf.trainable_variables()
        if len(self.towers) > 1 and any(var is one for var in variables for one in trained):
            raise ValueError(message)
        logger.warning(message)


def _nccl_can(grads: Sequence[Any]) -> bool:
    supported = (tf.float16, tf.float32, tf.float64)
    others = sorted({grad.dtype.base_dtype.name for grad in grads if grad.dtype.base_dtype not in supported})
    if others:
        logger.warning(
            f"NCCL cannot reduce gradients of dtype {', '.join(others)}. Mode 'gpu' is used instead."
        )
    return not others


def _same_initial_values(tower: str) -> Any:
    """
    Let each variable of a tower, slots of optimizers too, begin with the initial value of the main tower's.

    So the copies are equal from the beginning, and the graph has one initializer for all of them.
    """
    if not tower:
        return nullcontext()
    graph = tf.get_default_graph()
    prefix = f"{tower}/"
    originals = {var.op.name: var for var in tf.global_variables() + tf.local_variables()}

    def getter(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # optimizers name their slots "tower1/fc/W/Momentum/"
        name = (args[0] if args else kwargs["name"]).rstrip("/")
        original = originals.get(name[len(prefix) :]) if name.startswith(prefix) else None
        value = getattr(original, "initial_value", None)
        is_usable = (
            isinstance(value, tf.Tensor)
            and value.graph is graph
            and not private.inside_control_flow(value.op)
            and kwargs.get("partitioner") is None
            and tf.TensorShape(kwargs.get("shape")).is_compatible_with(value.shape)
            and value.shape.is_fully_defined()
        )
        if is_usable:
            kwargs.update(initializer=value, shape=None)
        return getter(*args, **kwargs)

    return custom_getter_scope(getter)
