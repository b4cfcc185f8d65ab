"""
All-reduce of gradients between the K towers of one process: their sum or mean.

The functions take "K x N" gradients: a list of towers, each with the gradients of the same N variables in the
same order. If the gradient of a variable is an `IndexedSlices` in every tower, the reduced one has the slices
of all towers.
"""

from __future__ import annotations

from typing import Any, List, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.scope_utils import under_name_scope
from ..utils.argtools import graph_memoized
from ..utils.checks import check_choice

Grads = List[List[tf.Tensor]]
"""K x N gradients: for each tower, the gradients of its variables."""

_GROUP_KEY = 42
_FIRST_INSTANCE_KEY = 100


def split_grad_list(grad_list: Sequence[GradVars]) -> tuple[Grads, Grads]:
    """
    Separate gradients and variables.

    Args:
        grad_list: for each tower, a list of `(gradient, variable)`.

    Returns:
        K x N gradients and K x N variables.
    """
    grads = [[grad for grad, _ in tower] for tower in grad_list]
    variables = [[var for _, var in tower] for tower in grad_list]
    return grads, variables


def merge_grad_list(
    all_grads: Sequence[Sequence[tf.Tensor]], all_vars: Sequence[Sequence[tf.Variable]]
) -> list[GradVars]:
    """
    Return for each tower a list of `(gradient, variable)`: the inverse of `split_grad_list`.
    """
    return [list(zip(grads, variables)) for grads, variables in zip(all_grads, all_vars)]


@under_name_scope("AllReduceGrads")
def allreduce_grads(
    all_grads: Sequence[Sequence[tf.Tensor]],
    average: bool,
    mode: str = "nccl",
    devices: Sequence[str] | None = None,
) -> Grads:
    """
    Reduce gradients with collective operations; each device receives the result.

    Args:
        all_grads: K x N gradients.
        average: whether to compute the mean instead of the sum.
        mode: "nccl", for GPUs only, or "collective", TensorFlow's collective operations. Both need K distinct devices.
        devices: the devices of the K towers. None means those of the gradients.

    Returns:
        K x N reduced gradients. Those of a single tower are unchanged.

    Raises:
        ValueError: `mode` is unknown.

    Note: the operations of the towers wait for each other. If two towers share a device, they deadlock.
    """
    check_choice("allreduce_grads: mode", mode, ("nccl", "collective"))
    if len(all_grads) == 1:
        return [list(all_grads[0])]
    reduce_one = _nccl if mode == "nccl" else _collective
    columns = []
    for grads in zip(*all_grads):
        if _are_tensors(grads):
            where = devices or [grad.device for grad in grads]
            columns.append(reduce_one(grads, where, average))
        else:
            columns.append([_Reduction(len(grads), average)(grads)] * len(grads))
    return [list(row) for row in zip(*columns)]


@under_name_scope("AllReduceGradsHierachical")  # misspelled as in tensorpack, because scripts use the scope
def allreduce_grads_hierarchical(
    all_grads: Sequence[Sequence[tf.Tensor]], devices: Sequence[str], average: bool = False
) -> Grads:
    """
    Reduce gradients of 8 devices in two groups of four, which suits the links of an 8-GPU machine.

    For variable i, device `i mod 8` adds up the gradients of its group, and its peer, the device at the same
    position in the other group, those of the other group. The peer adds both sums. Each device copies the
    total from the one of these two that is in its group.

    Args:
        all_grads: 8 x N gradients.
        devices: the 8 devices.
        average: whether to compute the mean instead of the sum.

    Returns:
        8 x N reduced gradients.

    Raises:
        ValueError: the number of towers or devices is not 8.
    """
    num_devices = len(devices)
    if num_devices != 8 or len(all_grads) != 8:
        raise ValueError(
            "allreduce_grads_hierarchical: wrong number of devices (expected 8 towers and 8 devices, got "
            f"{len(all_grads)} and {num_devices})."
        )
    reduction = _Reduction(num_devices, average)
    columns = [
        _hierarchical(grads, devices, i % num_devices, reduction)
        if _are_tensors(grads)
        else [reduction(grads)] * num_devices
        for i, grads in enumerate(zip(*all_grads))
    ]
    return [list(row) for row in zip(*columns)]


@under_name_scope("AggregateGradsColocate")
def aggregate_grads_colocate(all_grads: Sequence[GradVars], average: bool = True) -> GradVars:
    """
    Reduce gradients of shared variables, each on the device of its variable.

    Args:
        all_grads: for each tower, a list of `(gradient, variable)` with the same variables.
        average: whether to compute the mean instead of the sum.

    Returns:
        A list of N `(gradient, variable)`. That of a single tower is unchanged.
    """
    if len(all_grads) == 1:
        return list(all_grads[0])
    reduction = _Reduction(len(all_grads), average)
    reduced = []
    for pairs in zip(*all_grads):
        var = pairs[0][1]
        with tf.device(var.device):
            reduced.append((reduction([grad for grad, _ in pairs], var.device), var))
    return reduced


@under_name_scope("AllReduceNaive")
def allreduce_grads_naive(
    all_grads: Sequence[Sequence[tf.Tensor]], devices: Sequence[str] | None = None, average: bool = True
) -> list[tf.Tensor]:
    """
    Reduce the gradients of each variable on one device; the devices take turns.

    Args:
        all_grads: K x N gradients.
        devices: the devices. None leaves the placement to TensorFlow.
        average: whether to compute the mean instead of the sum.

    Returns:
        N reduced gradients, which all towers share. Those of a single tower are unchanged.
    """
    if len(all_grads) == 1:
        return list(all_grads[0])
    reduction = _Reduction(len(all_grads), average)
    reduced = []
    # The gradients of the last layers are ready first.
    for i, grads in enumerate(reversed(list(zip(*all_grads)))):
        device = devices[i % len(devices)] if devices else ""
        with tf.device(device):
            reduced.append(reduction(grads, device))
    return reduced[::-1]


def next_instance_key() -> int:
    """Return a number that is unique among the collective operations of this graph, between devices and between processes."""
    counter = _instance_counter()
    counter[0] += 1
    return counter[0]


@graph_memoized
def _instance_counter() -> list[int]:
    return [_FIRST_INSTANCE_KEY]


class _Reduction:
    """The sum or mean of the gradients of one variable."""

    def __init__(self, num_towers: int, average: bool) -> None:
        self._factor = 1.0 / num_towers if average else None
        self._constants: dict[Any, Any] = {}

    def __call__(self, grads: Sequence[tf.Tensor | tf.IndexedSlices], device: str = "") -> tf.Tensor | tf.IndexedSlices:
        """Reduce on the current device. `device` is its name, which each device's constant is stored under."""
        if all(isinstance(grad, tf.IndexedSlices) for grad in grads):
            values = tf.concat([grad.values for grad in grads], 0)
            indices = tf.concat([grad.indices for grad in grads], 0)
            return tf.IndexedSlices(self.scale(values, device), indices, grads[0].dense_shape)
        return self.scale(tf.add_n([tf.convert_to_tensor(grad) for grad in grads]), device)

    def scale(self, total: tf.Tensor, device: str = "") -> tf.Tensor:
        """Turn a sum into the mean if required. All gradients of one dtype and device share a constant."""
        if self._factor is None:
            return total
        key = (total.dtype.base_dtype, device)
        if key not in self._constants:
            self._constants[key] = tf.constant(self._factor, key[0], name="one_over_towers")
        return tf.multiply(total, self._constants[key])


def _are_tensors(grads: Sequence[tf.Tensor | tf.IndexedSlices]) -> bool:
    return all(isinstance(grad, tf.Tensor) for grad in grads)


def _nccl(grads: Sequence[tf.Tensor], devices: Sequence[str], average: bool) -> list[tf.Tensor]:
    name = f"nccl_all_sum_{next_instance_key()}"
    reduction = _Reduction(len(grads), average)
    reduced = []
    for grad, device in zip(grads, devices):
        with tf.device(device):
            total = tensorflow.raw_ops.NcclAllReduce(
                input=grad, reduction="sum", num_devices=len(grads), shared_name=name
            )
            reduced.append(reduction.scale(total, device))
    return reduced


def _collective(grads: Sequence[tf.Tensor], devices: Sequence[str], average: bool) -> list[tf.Tensor]:
    key = next_instance_key()
    reduced = []
    for grad, device in zip(grads, devices):
        with tf.device(device):
            reduced.append(
                tensorflow.raw_ops.CollectiveReduce(
                    input=grad,
                    group_size=len(grads),
                    group_key=_GROUP_KEY,
                    instance_key=key,
                    merge_op="Add",
                    final_op="Div" if average else "Id",
                    subdiv_offsets=[0],
                    communication_hint="nccl",  # a hint: without NCCL and on CPUs, TensorFlow uses a ring
                )
            )
    return reduced


def _hierarchical(
    grads: Sequence[tf.Tensor], devices: Sequence[str], main: int, reduction: _Reduction
) -> list[tf.Tensor]:
    peer = (main + 4) % 8
    halves = [range(4), range(4, 8)]
    main_half, peer_half = halves if main < 4 else halves[::-1]
    with tf.device(devices[main]):
        group0 = tf.add_n([grads[k] for k in main_half], name="group0_agg")
    with tf.device(devices[peer]):
        group1 = tf.add_n([grads[k] for k in peer_half], name="group1_agg")
        total1 = reduction.scale(tf.add(group0, group1, name="group1_total_agg"), devices[peer])
    with tf.device(devices[main]):
        total0 = tf.identity(total1, name="group0_total_agg")
    reduced = []
    for k, device in enumerate(devices):
        with tf.device(device):
            total = total0 if k in main_half else total1
            reduced.append(tf.identity(total, name=f"device{k}_total_agg"))
    return reduced
