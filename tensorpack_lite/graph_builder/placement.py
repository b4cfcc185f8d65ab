"""Where variables live: device functions and getters for models on several devices."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["LeastLoadedDeviceSetter", "OverrideCachingDevice"]

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


class LeastLoadedDeviceSetter:
    """
    A device function for `tf.device`: spreads variables over devices, everything else goes to one of them.

    A variable goes to the device that has the fewest elements so far; what reads or assigns it goes with it. An operation
    that has a device keeps it.

    Args:
        worker_device: the device of everything that is no variable, e.g. "/gpu:0".
        ps_devices: a list of the devices that hold variables.

    Raises:
        ValueError: `ps_devices` is empty.

    Example:
        >>> devices = ["/gpu:0", "/gpu:1"]
        >>> with tf.device(LeastLoadedDeviceSetter("/gpu:1", devices)):
        ...     W = tf.get_variable("W", shape=[100, 10])

    Note: a variable of unknown shape counts as empty, with a warning.

    tensorpack: same; there resource variables all go to `worker_device`.
    """

    def __init__(self, worker_device: str, ps_devices: Sequence[str]) -> None:
        if not ps_devices:
            raise ValueError(
                "LeastLoadedDeviceSetter: ps_devices is empty, wanted at least one device for the variables."
            )
        self.worker_device = _canonical(worker_device)
        self.ps_devices = [_canonical(device) for device in ps_devices]
        self.ps_sizes = [0] * len(self.ps_devices)

    def __call__(self, op: Any) -> str:
        """Say where an operation goes."""
        if op.device:
            return op.device
        if op.type in _VARIABLES:
            return self._least_loaded_for(op)
        home = next((t.op.device for t in op.inputs if t.op.type == "VarHandleOp"), "")
        return home or self.worker_device

    def _least_loaded_for(self, op: Any) -> str:
        index = self.ps_sizes.index(min(self.ps_sizes))
        self.ps_sizes[index] += _num_elements(op)
        return self.ps_devices[index]

    def __str__(self) -> str:
        return f"LeastLoadedDeviceSetter-{self.worker_device}"


class OverrideCachingDevice:
    """
    A custom getter that lets `tf.get_variable` keep a copy of each variable's value, read once a step, on another device.

    Small variables are all cached on one device; large ones go where the fewest elements are cached so far.

    Args:
        devices: a list of the devices that hold the copies of large variables.
        device_for_small_variables: the device of the others.
        small_variable_size_threshold: variables with fewer elements are small.

    Example:
        >>> getter = OverrideCachingDevice(["/gpu:0", "/gpu:1"], "/cpu:0", 1024)
        >>> with custom_getter_scope(getter):
        ...     W = tf.get_variable("W", shape=[100, 10])

    tensorpack: same; there it also makes variables that are not trained local.
    """

    def __init__(
        self, devices: Sequence[str], device_for_small_variables: str, small_variable_size_threshold: int
    ) -> None:
        self.devices = list(devices)
        self.sizes = [0] * len(self.devices)
        self.device_for_small_variables = device_for_small_variables
        self.small_variable_size_threshold = small_variable_size_threshold

    def __call__(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Get a variable that is cached."""
        size = tf.TensorShape(kwargs.get("shape")).num_elements()
        if size is None or not kwargs.get("trainable", True):
            return getter(*args, **kwargs)
        kwargs["caching_device"] = self._device_for(size)
        return getter(*args, **kwargs)

    def _device_for(self, size: int) -> str:
        if size < self.small_variable_size_threshold:
            return self.device_for_small_variables
        index = self.sizes.index(min(self.sizes))
        self.sizes[index] += size
        return self.devices[index]


def _canonical(device: str) -> str:
    return tf.DeviceSpec.from_string(device).to_string()


def _num_elements(op: Any) -> int:
    size = tf.TensorShape(op.get_attr("shape")).num_elements()
    if size is None:
        logger.warning(
            f"LeastLoadedDeviceSetter: variable '{op.name}' has no known shape, it counts as empty."
        )
    return size or 0
