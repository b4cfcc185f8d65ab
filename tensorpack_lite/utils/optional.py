"""Packages that may be absent: loaded by the first call that needs one, or refused with the command that installs it."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

__all__ = ["load_optional", "require_optional"]

# module: (name of the package, what pip installs)
_PACKAGES = {
    "IPython": ("IPython", "ipython"),
    "comet_ml": ("comet_ml", "comet_ml"),
    "cv2": ("OpenCV", "tensorpack_lite[image]"),
    "h5py": ("h5py", "tensorpack_lite[formats]"),
    "lmdb": ("lmdb", "tensorpack_lite[formats]"),
    "matplotlib": ("matplotlib", "tensorpack_lite[plot]"),
    "mlflow": ("MLflow", "tensorpack_lite[mlflow]"),
    "scipy": ("SciPy", "tensorpack_lite[datasets]"),
    "sklearn": ("scikit-learn", "scikit-learn"),
    "wandb": ("wandb", "tensorpack_lite[wandb]"),
    "zmq": ("ZMQ", "pyzmq"),
}


def load_optional(module: str, who: str, advice: str = "") -> Any:
    """
    Import an optional package, or one of its modules.

    Args:
        module: its name, e.g. "cv2" or "scipy.io"; of a package in the table above.
        who: the class or function that needs it.
        advice: what else can be done where it is absent, e.g. ", or use shell='pdb'".

    Returns:
        The module.

    Raises:
        ImportError: it cannot be imported; with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(_sentence(module, who) + advice) from error


def require_optional(module: str, who: str) -> None:
    """
    Refuse, without importing an optional package, to build what could not run.

    Args:
        module: its name, e.g. "cv2".
        who: the class or function that needs it.

    Raises:
        ImportError: it is not installed; with the command that installs it.
    """
    if find_spec(module) is None:
        raise ImportError(_sentence(module, who))


def _sentence(module: str, who: str) -> str:
    package, install = _PACKAGES[module.split(".")[0]]
    install = f'"{install}"' if "[" in install else install  # brackets mean something to some shells
    return f"{who}: needs {package}, which is not installed. Run: pip install {install}"
