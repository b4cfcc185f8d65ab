"""
GPUs that do not exist, for scripts that require some: `tensorpack-lite run --pretend-gpu`.

Why private: TensorFlow has no public function that lists devices in graph mode. Tried on 1.15, 2.15, 2.21.
"""

from __future__ import annotations

import functools
from typing import Any

from tensorflow.core.framework.device_attributes_pb2 import DeviceAttributes
from tensorflow.core.protobuf.config_pb2 import ConfigProto
from tensorflow.python.client import device_lib as _device_lib
from tensorflow.python.client import session as _session

from . import tensorflow
from . import tfv1 as tf
from .replacement import replace


def install(number: int) -> None:
    """
    Let TensorFlow's functions report GPUs, and sessions compute operations on the CPU that are placed on one.

    Args:
        number: how many GPUs.
    """
    list_local_devices = _device_lib.list_local_devices
    create_session = _session.BaseSession.__init__

    @functools.wraps(list_local_devices)
    def with_gpus(session_config: Any = None) -> list[Any]:
        gpus = [DeviceAttributes(name=f"/device:GPU:{i}", device_type="GPU") for i in range(number)]
        return [*list_local_devices(session_config), *gpus]

    @functools.wraps(create_session)
    def create_with_soft_placement(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        changed = ConfigProto()
        changed.CopyFrom(config or ConfigProto())
        changed.allow_soft_placement = True
        create_session(self, target, graph, changed)

    replace(_device_lib, "list_local_devices", with_gpus)
    replace(_session.BaseSession, "__init__", create_with_soft_placement)
    for module in (tf.test, tensorflow.test):
        module.is_gpu_available = lambda *args, **kwargs: True
        module.gpu_device_name = lambda: "/device:GPU:0"
        module.is_built_with_cuda = lambda: True
