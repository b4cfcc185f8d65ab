"""tensorpack's path of functions that are defined in other modules of this package and in tfutils/varreplace.py."""

from ..tfutils.varreplace import override_to_local_variable
from .allreduce import (
    aggregate_grads_colocate,
    allreduce_grads,
    allreduce_grads_hierarchical,
    allreduce_grads_naive,
    merge_grad_list,
    split_grad_list,
)
from .packing import GradientPacker
from .placement import LeastLoadedDeviceSetter, OverrideCachingDevice

__all__ = [
    "GradientPacker", "LeastLoadedDeviceSetter", "OverrideCachingDevice", "aggregate_grads_colocate",
    "allreduce_grads", "allreduce_grads_hierarchical", "allreduce_grads_naive", "merge_grad_list",
    "override_to_local_variable", "split_grad_list",
]  # fmt: skip
