"""Import of optional packages on first use, with an error that names the command that installs them."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

# module: (name of the package, what pip installs)
_PACKAGES = {
    "IPython": ("IPython", "ipython"),
    "comet_ml": ("comet_ml", "comet_ml"),
    "cv2": ("OpenCV", "tensorpack_lite[image]"),
    "h5py": ("h5py", "tensorpack_lite[formats]"),
    "lmdb": ("lmdb", "tensorpack_lite[formats]"),
    "matplotlib": ("matplotlib", "tensorpack_lite[plot]"),
    "mlflow": ("MLflow", "tensorpack_lite[mlflow]"),
    "onnx": ("onnx", "tensorpack_lite[onnx]"),
    "onnxruntime": ("onnxruntime", "tensorpack_lite[onnx]"),
    "pyarrow": ("pyarrow", "tensorpack_lite[parquet]"),
    "pynvml": ("nvidia-ml-py", "tensorpack_lite[gpu]"),
    "safetensors": ("safetensors", "tensorpack_lite[safetensors]"),
    "scipy": ("SciPy", "tensorpack_lite[datasets]"),
    "sklearn": ("scikit-learn", "scikit-learn"),
    "tf2onnx": ("tf2onnx", "tensorpack_lite[onnx]"),
    "tf_keras": ("tf_keras", "tensorpack_lite[tf1]"),
    "tf_slim": ("tf_slim", "tensorpack_lite[tf1]"),
    "wandb": ("wandb", "tensorpack_lite[wandb]"),
    "zmq": ("ZMQ", "pyzmq"),
}


def load_optional(module: str, who: str, advice: str = "") -> ModuleType:
    """
    Import an optional package, or one of its modules.

    Args:
        module: its name, e.g. "cv2" or "scipy.io". The package must be in the table above.
        who: the class or function that uses the module.
        advice: an alternative to installing it, e.g. ", or use shell='pdb'".

    Returns:
        The module.

    Raises:
        ImportError: the module cannot be imported. The message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(_sentence(module, who) + advice) from error


def require_optional(module: str, who: str) -> None:
    """
    Raise an ImportError if an optional package is not installed. The package is not imported.

    Args:
        module: its name, e.g. "cv2".
        who: the class or function that uses the module.

    Raises:
        ImportError: the package is not installed. The message has the command that installs it.
    """
    if find_spec(module) is None:
        raise ImportError(_sentence(module, who))


def _sentence(module: str, who: str) -> str:
    package, install = _PACKAGES[module.split(".")[0]]
    install = f'"{install}"' if "[" in install else install  # some shells expand brackets
    return f"{who}: needs {package}, which is not installed. Run: pip install {install}"
