"""
Gradients of K towers become one: the sum or the mean, where it is needed.

All functions here take gradients as a list of towers, each with the gradients of the same N variables in the same order
("K x N"). The gradient of a variable may be an `IndexedSlices` in every tower; the reduced one has all slices then, as that
of one tower with all the data has.
"""

from __future__ import annotations

from typing import Any, List, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..tfutils.gradproc import GradVars
from ..tfutils.scope_utils import under_name_scope
from ..utils.argtools import graph_memoized

__all__ = [
    "aggregate_grads_colocate",
    "allreduce_grads",
    "allreduce_grads_hierarchical",
    "allreduce_grads_naive",
    "merge_grad_list",
    "next_instance_key",
    "split_grad_list",
]

Grads = List[List[Any]]
"""K x N gradients: for each tower, those of its variables."""

_GROUP_KEY = 42
_FIRST_INSTANCE_KEY = 100


def split_grad_list(grad_list: Sequence[GradVars]) -> tuple[Grads, Grads]:
    """
    Separate gradients and variables.

    Args:
        grad_list: for each tower, its list of `(gradient, variable)`.

    Returns:
        K x N gradients and K x N variables.

    tensorpack: same.
    """
    grads = [[grad for grad, _ in tower] for tower in grad_list]
    variables = [[var for _, var in tower] for tower in grad_list]
    return grads, variables


def merge_grad_list(all_grads: Sequence[Sequence[Any]], all_vars: Sequence[Sequence[Any]]) -> list[GradVars]:
    """
    Undo `split_grad_list`.

    Returns:
        For each tower, its list of `(gradient, variable)`.

    tensorpack: same.
    """
    return [list(zip(grads, variables)) for grads, variables in zip(all_grads, all_vars)]


@under_name_scope("AllReduceGrads")
def allreduce_grads(
    all_grads: Sequence[Sequence[Any]],
    average: bool,
    mode: str = "nccl",
    devices: Sequence[str] | None = None,
) -> Grads:
    """
    Reduce gradients with operations that all devices take part in; each device gets the result.

    Args:
        all_grads: K x N gradients.
        average: the mean; else the sum.
        mode: "nccl", for GPUs only, or "collective", TensorFlow's collective operations. Both need K distinct devices.
        devices: of the K towers; None means where the gradients are.

    Returns:
        K x N reduced gradients; those of a single tower unchanged.

    Raises:
        ValueError: another mode.

    Note: the operations of the towers wait for each other. On devices that are one and the same they never return.

    tensorpack: same.
    """
    if mode not in ("nccl", "collective"):
        raise ValueError(f"allreduce_grads: mode is '{mode}', wanted 'nccl' or 'collective'.")
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


@under_name_scope("AllReduceGradsHierachical")  # spelled as in tensorpack: graphs and scripts know the scope
def allreduce_grads_hierarchical(
    all_grads: Sequence[Sequence[Any]], devices: Sequence[str], average: bool = False
) -> Grads:
    """
    Reduce gradients of 8 devices in two groups of four, as the links of an 8-GPU machine suggest.

    For variable i, device `i mod 8` adds up the gradients of its half, the device at the same place in the other half those of
    that half and then both; each device takes the total from the one of these two in its own half.

    Args:
        all_grads: 8 x N gradients.
        devices: the 8 devices.
        average: the mean; else the sum.

    Returns:
        8 x N reduced gradients.

    Raises:
        ValueError: there are not 8 devices.

    tensorpack: same.
    """
    num_devices = len(devices)
    if num_devices != 8 or len(all_grads) != 8:
        raise ValueError(
            f"allreduce_grads_hierarchical: got {len(all_grads)} towers and {num_devices} devices, wanted 8 of each."
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
        all_grads: for each tower, its list of `(gradient, variable)`; the variables are the same ones.
        average: the mean; else the sum.

    Returns:
        A list of N `(gradient, variable)`; that of a single tower unchanged.

    tensorpack: same.
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
    all_grads: Sequence[Sequence[Any]], devices: Sequence[str] | None = None, average: bool = True
) -> list[Any]:
    """
    Reduce each variable's gradients on one device, taking turns.

    Args:
        all_grads: K x N gradients.
        devices: take the turns; None means wherever TensorFlow puts it.
        average: the mean; else the sum.

    Returns:
        N reduced gradients, to be shared by all towers; those of a single tower unchanged.

    tensorpack: same.
    """
    if len(all_grads) == 1:
        return list(all_grads[0])
    reduction = _Reduction(len(all_grads), average)
    reduced = []
    # The last layers' gradients are there first.
    for i, grads in enumerate(reversed(list(zip(*all_grads)))):
        device = devices[i % len(devices)] if devices else ""
        with tf.device(device):
            reduced.append(reduction(grads, device))
    return reduced[::-1]


def next_instance_key() -> int:
    """Give a number that no other collective operation of this graph has, between its devices or with other processes."""
    counter = _instance_counter()
    counter[0] += 1
    return counter[0]


@graph_memoized
def _instance_counter() -> list[int]:
    return [_FIRST_INSTANCE_KEY]


class _Reduction:
    """Adds up the gradients of one variable, and divides by their number if asked to."""

    def __init__(self, num_towers: int, average: bool) -> None:
        self._factor = 1.0 / num_towers if average else None
        self._constants: dict[Any, Any] = {}

    def __call__(self, grads: Sequence[Any], device: str = "") -> Any:
        """Reduce on the current device; its name keeps apart the constants of several."""
        if all(isinstance(grad, tf.IndexedSlices) for grad in grads):
            return self._join_slices(grads, device)
        return self.scale(tf.add_n([tf.convert_to_tensor(grad) for grad in grads]), device)

    def scale(self, total: Any, device: str = "") -> Any:
        """Turn a sum into what was asked for. One constant serves all gradients of a dtype and device."""
        if self._factor is None:
            return total
        key = (total.dtype.base_dtype, device)
        if key not in self._constants:
            self._constants[key] = tf.constant(self._factor, key[0], name="one_over_towers")
        return tf.multiply(total, self._constants[key])

    def _join_slices(self, grads: Sequence[Any], device: str) -> Any:
        values = tf.concat([grad.values for grad in grads], 0)
        indices = tf.concat([grad.indices for grad in grads], 0)
        return tf.IndexedSlices(self.scale(values, device), indices, grads[0].dense_shape)


def _are_tensors(grads: Sequence[Any]) -> bool:
    return all(isinstance(grad, tf.Tensor) for grad in grads)


def _nccl(grads: Sequence[Any], devices: Sequence[str], average: bool) -> list[Any]:
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


def _collective(grads: Sequence[Any], devices: Sequence[str], average: bool) -> list[Any]:
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
                    communication_hint="nccl",  # a hint: without it, or on CPUs, a ring
                )
            )
    return reduced


def _hierarchical(
    grads: Sequence[Any], devices: Sequence[str], main: int, reduction: _Reduction
) -> list[Any]:
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
