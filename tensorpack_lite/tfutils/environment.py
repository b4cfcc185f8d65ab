"""Description of the machine, the installed versions, and the capabilities of the installed TensorFlow."""

from __future__ import annotations

import ctypes.util
import importlib
import importlib.util
import operator
import os
import platform
import shutil
import sys
from contextlib import suppress
from typing import Any, Callable

import numpy as np
import psutil
from tabulate import tabulate

from .._version import __version__
from ..compat import is_tfv2, tensorflow
from ..compat import tfv1 as tf
from ..utils.nvml import NVMLContext, NvmlException

if sys.version_info >= (3, 8):
    import importlib.metadata

_OPTIONAL_PACKAGES = ("horovod", "cv2", "msgpack", "zmq", "lmdb", "h5py", "scipy", "sklearn", "prctl")
_NVIDIA_LIBRARIES = ("cuda", "cudart", "cudnn", "nccl")

# name in tf.compat.v1 -> the part of the library, or the scripts, that need it
_CAPABILITIES = {
    "Session": "everything",
    "train.Saver": "checkpoints",
    "train.SessionRunHook": "hooks",
    "queue.FIFOQueue": "QueueInput",
    "raw_ops.Stage": "StagingInput",
    "data.make_initializable_iterator": "TFDatasetInput",
    "summary.FileWriter": "TFEventWriter",
    "graph_util.convert_variables_to_constants": "ModelExporter",
    "saved_model.Builder": "ModelExporter",
    "layers.dense": "scripts with tf.layers",
    "nn.rnn_cell.LSTMCell": "scripts with tf.nn.rnn_cell",
    "estimator.Estimator": "scripts with tf.estimator",
    "xla.experimental.compile": "XLA_COMPILE",
    "train.experimental.enable_mixed_precision_graph_rewrite": "mixed precision",
    "config.experimental.enable_op_determinism": "runs that repeat on GPUs",
    "lite.TFLiteConverter.from_session": "TFLite",
}


def collect_env_info() -> str:
    """
    Describe the environment for a bug report: system, versions, GPUs, and the capabilities of the installed TensorFlow.

    This function never raises. A row that cannot be determined contains the error.

    Returns:
        Two tables, as text.

    Example:
        $ python -m tensorpack_lite.tfutils.collect_env
    """
    facts = [(name, _ask(question)) for name, question in _QUESTIONS]
    facts += [(package, _ask(_package_version, package)) for package in _OPTIONAL_PACKAGES]
    facts += [(f"GPU {index}", name) for index, name in enumerate(_gpu_names())]
    capabilities = [
        (name, "yes" if available else "no", _CAPABILITIES[name])
        for name, available in tensorflow_capabilities().items()
    ]
    headers = ["TensorFlow has", "available", "needed for"]
    environment = tabulate(facts, tablefmt="plain", disable_numparse=True)
    return f"{environment}\n\n{tabulate(capabilities, headers=headers, disable_numparse=True)}"


def tensorflow_capabilities() -> dict[str, bool]:
    """
    Check which parts of `tf.compat.v1`, or else of `tf`, the installed TensorFlow has.

    Returns:
        `{name: whether it is available}`. A name that raises when it is accessed, such as `layers` since
        TensorFlow 2.16, is not available.

    Note: accessing `layers` imports Keras if it is installed. The rest of the library never imports it.
    """
    return {name: _can_get(name) for name in _CAPABILITIES}


def _can_get(name: str) -> bool:
    return _has(tf, name) or _has(tensorflow, name)


def _has(module: object, name: str) -> bool:
    try:
        operator.attrgetter(name)(module)
    except Exception:  # noqa: BLE001 (TensorFlow's lazy modules raise any type of error if a part is missing)
        return False
    return True


def _ask(question: Callable[..., object], *args: str) -> str:
    try:
        return str(question(*args))
    except Exception as error:  # noqa: BLE001 (the report must also work for a broken installation)
        return f"unknown ({type(error).__name__}: {error})"


def _package_version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return "not installed"
    return getattr(importlib.import_module(package), "__version__", "installed")


def _tensorflow_mode() -> str:
    switches = {
        "v2 behavior": is_tfv2(),
        "eager": tf.executing_eagerly(),
        "v2 control flow": tf.control_flow_v2_enabled(),
        "resource variables by default": tf.resource_variables_enabled(),
    }
    return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in switches.items())


def _version_from_metadata(package: str) -> str:
    """Return the version of a package without importing it, if Python 3.8 or newer finds it. Importing Keras takes seconds."""
    if sys.version_info >= (3, 8):
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return _package_version(package)


def _keras() -> str:
    for package in ("keras", "tf_keras"):
        if importlib.util.find_spec(package) is not None:
            return f"{package} {_version_from_metadata(package)} (tensorpack_lite does not import it)"
    return "not installed"


def _nvidia_libraries() -> str:
    found = {name: ctypes.util.find_library(name) for name in _NVIDIA_LIBRARIES}
    return ", ".join(f"{name}: {path or 'not found'}" for name, path in found.items())


def _memory() -> str:
    memory = psutil.virtual_memory()
    return f"{memory.available / 1024**3:.2f}/{memory.total / 1024**3:.2f} GB free"


def _gpu_names() -> list[str]:
    try:
        with NVMLContext() as nvml:
            return [device.name() for device in nvml.devices()]
    except NvmlException:
        return []
    except ImportError as error:
        return [f"unknown ({error})"] if shutil.which("nvidia-smi") else []
    except Exception as error:  # noqa: BLE001 (the report includes any other failure of the driver)
        return [f"unknown ({type(error).__name__}: {error})"]


_QUESTIONS: list[tuple[str, Callable[[], Any]]] = [
    ("system", platform.platform),
    ("python", lambda: sys.version.replace("\n", "")),
    ("tensorpack_lite", lambda: __version__),
    ("numpy", lambda: np.__version__),
    ("tensorflow", lambda: f"{tensorflow.__version__} / {tf.GIT_VERSION}"),
    ("tensorflow compiler", lambda: tf.COMPILER_VERSION),
    ("tensorflow mode", _tensorflow_mode),
    ("built with CUDA", tf.test.is_built_with_cuda),
    ("built with XLA", lambda: _can_get("xla.experimental.compile")),
    ("keras", _keras),
    ("NVIDIA libraries", _nvidia_libraries),
    ("CUDA_VISIBLE_DEVICES", lambda: os.environ.get("CUDA_VISIBLE_DEVICES", "not set")),
    ("RAM", _memory),
    ("CPU count", os.cpu_count),
]
