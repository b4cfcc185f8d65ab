"""Builder with a copy of the variables on each device; all-reduced gradients keep the copies equal."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any, Callable, ContextManager, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from ..compat.value_names import value_of
from ..tfutils.gradproc import GradVars
from ..tfutils.proxy_optimizer import set_gradient_factor
from ..tfutils.tower.context import get_current_tower_context
from ..tfutils.tower.copies import register_copies, split_tower
from ..tfutils.varreplace import custom_getter_scope, override_to_local_variable
from ..utils import logger
from ..utils.checks import check_choice
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
from .placement import device_of_gpu

_MODES = ("nccl", "cpu", "hierarchical", "gpu", "collective")


class SyncMultiGPUReplicatedBuilder(DataParallelBuilder):
    """
    Builder of towers with copies of the variables, an update of each copy by the reduced gradients, and an
    operation that sets all copies to the values of the first tower.

    Args:
        towers: a list of GPU numbers.
        average: whether to reduce gradients to their mean instead of their sum.
        mode: "cpu" or "gpu" (devices take turns in adding up), "hierarchical" (8 devices), "nccl" or
            "collective" (collective operations).
        devices: the devices of the towers. None means `/gpu:<number>`, or `/cpu:0` on a machine without GPUs.

    Attributes:
        grads: the reduced gradients of the first tower, a list of `(gradient, variable)`, after `build`.

    Raises:
        ValueError: `mode` is unknown, or "hierarchical" with a number of towers other than 8.
    """

    grads: GradVars

    def __init__(self, towers: Sequence[int], average: bool, mode: str, devices: Sequence[str] | None = None) -> None:
        super().__init__(towers)
        check_choice(f"{type(self).__name__}: mode", mode, _MODES)
        if mode == "hierarchical" and len(self.towers) != 8:
            raise ValueError(
                f"{type(self).__name__}: mode 'hierarchical' needs 8 towers (got {len(self.towers)}). Use mode='gpu'."
            )
        self._average = average
        self._mode = mode
        self.devices = [device_of_gpu(gpu) for gpu in self.towers] if devices is None else list(devices)

    def call_for_each_tower(self, tower_fn: Callable[[], GradVars]) -> list[GradVars]:  # type: ignore[override]
        """
        Build the towers.

        Args:
            tower_fn: builds one tower and returns its `(gradient, variable)` pairs.

        Returns:
            The pairs of each tower.
        """

        def build_tower() -> GradVars:
            with _same_initial_values(get_current_tower_context().vs_name):  # type: ignore[union-attr]
                return tower_fn()

        use_vs = [index > 0 for index in range(len(self.towers))]
        return self.build_on_towers(self.towers, build_tower, self.devices, use_vs)

    def build(
        self, grad_list: Sequence[GradVars], get_opt_fn: Callable[[], tf.train.Optimizer]
    ) -> tuple[tf.Operation, tf.Operation | None]:
        """
        Build the updates.

        Args:
            grad_list: the pairs of each tower.
            get_opt_fn: returns the optimizer.

        Returns:
            The operation `train_op`, and the operation that sets all copies to the values of the first tower.
            Run the latter after variables are initialized or restored. It is None for one tower.

        Raises:
            ValueError: the towers have gradients of different variables, or trainable variables that were not
                created with `tf.get_variable`.
        """
        self._check_grad_list(grad_list)
        all_grads, all_vars = split_grad_list(grad_list)
        grad_list = merge_grad_list(self._reduce(all_grads), all_vars)
        self.grads = grad_list[0]
        optimizer = get_opt_fn()
        set_gradient_factor(optimizer, 1.0 if self._average else len(self.towers))

        def update_tower(index: int) -> tf.Operation:
            tower = f"tower{index}" if index > 0 else ""
            local = override_to_local_variable(enable=index > 0)
            with tf.device(self.devices[index]), local, _same_initial_values(tower):
                return optimizer.apply_gradients(grad_list[index], name=f"apply_grad_{index}")

        with tf.name_scope("apply_gradients"), shared_zeros():
            applications = [functools.partial(update_tower, index) for index in range(len(self.towers))]
            updates = apply_one_after_another(optimizer, applications)
        train_op = tf.group(*updates, name="train_op")
        with tf.name_scope("sync_variables"):
            return train_op, self._sync_with_main_tower()

    def _reduce(self, all_grads: Grads) -> Grads:
        num_towers = len(self.towers)
        if num_towers == 1:
            return all_grads
        mode = self._mode
        if mode == "nccl" and _nccl_supports(all_grads[0]):
            return self._reduce_together(mode, all_grads)
        if mode in ("cpu", "gpu", "nccl"):
            devices = ["/cpu:0"] if mode == "cpu" else self.devices
            return [allreduce_grads_naive(all_grads, devices=devices, average=self._average)] * num_towers
        packer = GradientPacker(num_towers if mode == "hierarchical" else 1)
        if not packer.compute_strategy(all_grads[0]):
            return self._reduce_together(mode, all_grads)
        packs = packer.pack_all(all_grads, self.devices)
        return packer.unpack_all(self._reduce_together(mode, packs), self.devices)

    def _reduce_together(self, mode: str, all_grads: Grads) -> Grads:
        if mode == "hierarchical":
            return allreduce_grads_hierarchical(all_grads, self.devices, self._average)
        return allreduce_grads(all_grads, self._average, mode, self.devices)

    def _sync_with_main_tower(self) -> tf.Operation | None:
        """Return the operation that assigns the variables of the main tower to their copies; None without copies."""
        variables = tf.global_variables() + tf.local_variables()
        by_name = {var.op.name: var for var in variables}
        # the state of tf.metrics, which each tower counts by itself
        metrics = {var.op.name for var in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)}
        assignments, unknown = [], []
        for var in variables:
            parts = split_tower(var.op.name)
            if parts is None:
                continue
            original = by_name.get(parts[1]) if parts[0] > 0 else None
            if original is None:
                if var.op.name not in metrics:
                    unknown.append(var)
                continue
            with tf.device(var.device):
                assignments.append(var.assign(value_of(original.op.outputs[0]), read_value=False))
        if unknown:
            message = self._describe_raw_variables(unknown)
            trained = tf.trainable_variables()
            if len(self.towers) > 1 and any(var is variable for var in unknown for variable in trained):
                raise ValueError(message)
            logger.warning(message)
        if not assignments:
            return None
        register_copies(assignments)
        logger.info(f"{len(assignments)} variables of the other towers are copies of those of the first tower.")
        return tf.group(*assignments, name="sync_variables_from_main_tower")


def _nccl_supports(grads: Sequence[tf.Tensor]) -> bool:
    supported = (tf.float16, tf.float32, tf.float64)
    dtypes = sorted({grad.dtype.base_dtype.name for grad in grads if grad.dtype.base_dtype not in supported})
    if dtypes:
        logger.warning(f"NCCL does not support gradients of dtype {', '.join(dtypes)}. Using mode 'gpu' instead.")
    return not dtypes


def _same_initial_values(tower: str) -> ContextManager[None]:
    """
    Let each variable of a tower, including slots of optimizers, start with the initial value of the main
    tower's variable.

    The copies are then equal from the start, and the graph has one initializer for all of them.
    """
    if not tower:
        return nullcontext()
    graph = tf.get_default_graph()
    prefix = f"{tower}/"
    originals = {var.op.name: var for var in tf.global_variables() + tf.local_variables()}

    def getter(getter: Callable[..., tf.Variable], *args: Any, **kwargs: Any) -> tf.Variable:
        # the names of slots end with a slash: "tower1/fc/W/Momentum/"
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
