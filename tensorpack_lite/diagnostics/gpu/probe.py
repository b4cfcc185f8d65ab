"""
Program that tries the GPUs with TensorFlow, and prints the result as JSON: `python -m tensorpack_lite.diagnostics.gpu.probe`.

It is a separate process, because a library that does not fit may crash it, and because TensorFlow's log, which the caller
reads from stderr, cannot be turned on later.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time

from ...compat import ensure_graph_mode, tensorflow
from ...compat import tfv1 as tf

_LIBRARY = re.compile(r"(/\S*/lib(cuda|cudart|cudnn|cublas|cufft|cusolver|cusparse|nccl)\.so[.\d]*)$", re.MULTILINE)


def probe() -> dict[str, object]:
    """
    Import TensorFlow, list its GPUs, and compute a product and a convolution on each.

    Returns:
        `tensorflow` (its version), `has_cuda`, `build` (a dict, e.g. `cuda_version`), `devices` (a list of `name`,
        `description`, and `error`, the text of an error of the computation or None, `seconds`), and `libraries` (the paths
        of the NVIDIA libraries that were loaded, by name).
    """
    ensure_graph_mode()
    with tf.Session() as session:
        names = [device.name for device in session.list_devices() if device.device_type == "GPU"]
    devices = []
    for name in names:
        start = time.perf_counter()
        error = _compute(name)
        devices.append({"name": name, "error": error, "seconds": round(time.perf_counter() - start, 1)})
    # TensorFlow 1.15 does not tell
    build: dict[str, object] = getattr(tensorflow.sysconfig, "get_build_info", dict)()
    return {
        "tensorflow": tensorflow.__version__,
        "has_cuda": bool(tf.test.is_built_with_cuda()),
        "build": {name: value for name, value in build.items() if isinstance(value, (str, list, bool))},
        "devices": devices,
        "libraries": _loaded_libraries(),
    }


def _compute(device: str) -> str | None:
    with tf.Graph().as_default(), tf.device(device):
        image = tf.random_uniform([2, 16, 16, 8])
        kernel = tf.random_uniform([3, 3, 8, 8])
        convolved = tf.nn.conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME")
        product = tf.matmul(tf.reshape(convolved, [32, -1]), tf.random_uniform([128, 4]))
        result = tf.reduce_sum(tf.nn.relu(product))
        try:
            with tf.Session() as session:
                session.run(result)
        except tf.errors.OpError as error:
            return error.message
    return None


def _loaded_libraries() -> dict[str, str]:
    if not os.path.exists("/proc/self/maps"):  # other systems than Linux
        return {}
    with open("/proc/self/maps") as file:
        found = _LIBRARY.findall(file.read())
    return {f"lib{name}": path for path, name in found}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()) + "\n")
