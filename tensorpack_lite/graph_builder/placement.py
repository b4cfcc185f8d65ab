"""Placement of variables on several devices: device functions and variable getters."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.gpu import get_num_gpu

_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


def device_of_gpu(number: int) -> str:
    """
    Return the device of a GPU, or the CPU if the machine has no GPU.

    Args:
        number: number of the GPU; negative means the CPU.

    Returns:
        `/gpu:<number>` or `/cpu:0`.
    """
    if number < 0:
        return "/cpu:0"
    # TensorFlow also knows GPUs that are not NVIDIA's
    has_gpu = get_num_gpu() > 0 or tensorflow.config.experimental.list_physical_devices("GPU")
    return f"/gpu:{number}" if has_gpu else "/cpu:0"


class LeastLoadedDeviceSetter:
    """
    A device function for `tf.device` that spreads variables over several devices.

    A variable is placed on the device with the fewest elements so far, together with the operations that read
    or assign it. An operation that already has a device keeps it.

    Args:
        worker_device: the device of all other operations, e.g. "/gpu:0".
        ps_devices: a list of devices for the variables.

    Raises:
        ValueError: `ps_devices` is empty.

    Example:
        >>> devices = ["/gpu:0", "/gpu:1"]
        >>> with tf.device(LeastLoadedDeviceSetter("/gpu:1", devices)):
        ...     W = tf.get_variable("W", shape=[100, 10])

    Note: a variable of unknown shape counts as empty, with a warning.
    """

    def __init__(self, worker_device: str, ps_devices: Sequence[str]) -> None:
        if not ps_devices:
            raise ValueError(
                "LeastLoadedDeviceSetter: ps_devices is empty (expected at least one device for the variables)."
            )
        self.worker_device = _canonical(worker_device)
        self.ps_devices = [_canonical(device) for device in ps_devices]
        self.ps_sizes = [0] * len(self.ps_devices)

    def __call__(self, op: tf.Operation) -> str:
        """Return the device of an operation."""
        if op.device:
            return op.device
        if op.type in _VARIABLES:
            return _fill_least_loaded(self.ps_devices, self.ps_sizes, _num_elements(op))
        home = next((t.op.device for t in op.inputs if t.op.type == "VarHandleOp"), "")
        return home or self.worker_device

    def __str__(self) -> str:
        return f"LeastLoadedDeviceSetter-{self.worker_device}"


class OverrideCachingDevice:
    """
    A custom getter that caches the value of each trainable variable on another device, once per step.

    Small variables are cached on one device, each large one on the device with the fewest cached elements so far.

    Args:
        devices: a list of devices for large variables.
        device_for_small_variables: the device for small variables.
        small_variable_size_threshold: variables with fewer elements are small.

    Example:
        >>> getter = OverrideCachingDevice(["/gpu:0", "/gpu:1"], "/cpu:0", 1024)
        >>> with custom_getter_scope(getter):
        ...     W = tf.get_variable("W", shape=[100, 10])
    """

    def __init__(
        self, devices: Sequence[str], device_for_small_variables: str, small_variable_size_threshold: int
    ) -> None:
        self.devices = list(devices)
        self.sizes = [0] * len(self.devices)
        self.device_for_small_variables = device_for_small_variables
        self.small_variable_size_threshold = small_variable_size_threshold

    def __call__(self, getter: Callable[..., tf.Variable], *args: Any, **kwargs: Any) -> tf.Variable:
        """Return a cached variable."""
        size = tf.TensorShape(kwargs.get("shape")).num_elements()
        if size is None or not kwargs.get("trainable", True):
            return getter(*args, **kwargs)
        if size < self.small_variable_size_threshold:
            kwargs["caching_device"] = self.device_for_small_variables
        else:
            kwargs["caching_device"] = _fill_least_loaded(self.devices, self.sizes, size)
        return getter(*args, **kwargs)


def _fill_least_loaded(devices: Sequence[str], sizes: list[int], size: int) -> str:
    """Return the device with the smallest size, to which a variable is added."""
    index = sizes.index(min(sizes))
    sizes[index] += size
    return devices[index]


def _canonical(device: str) -> str:
    return tf.DeviceSpec.from_string(device).to_string()


def _num_elements(op: tf.Operation) -> int:
    size = tf.TensorShape(op.get_attr("shape")).num_elements()
    if size is None:
        logger.warning(f"LeastLoadedDeviceSetter: the shape of variable '{op.name}' is unknown, so it counts as empty.")
    return size or 0
