"""
Import of tf_slim 1.1, the last version, on a TensorFlow that is newer.

tf_slim uses private modules of TensorFlow, such as `control_flow_ops`, whose functions have moved to other
modules since.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

from ...compat import TF_VERSION
from ...compat import tfv1 as tf
from ...utils.optional import load_optional, require_optional

# The names by which modules of tf_slim know modules of TensorFlow from which functions have moved.
_MODULES = ("array_ops", "control_flow_ops", "ops", "variable_scope")


class _WithMovedNames:
    """A module of TensorFlow, with the names that TensorFlow has moved from it to its public modules."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._module, name)
        except AttributeError:
            return tf.Variable if name == "variable" else getattr(tf, name)


@lru_cache(maxsize=None)
def import_tf_slim(name: str) -> ModuleType:
    """
    Import a module of tf_slim, and let it find the functions that TensorFlow has moved.

    Args:
        name: "tf_slim", or the dotted name of a module below it.

    Raises:
        ImportError: tf_slim is not installed, or TensorFlow uses Keras 3.
    """
    require_keras_2("tf.contrib")
    load_optional("tf_slim", "tf.contrib")
    found = importlib.import_module(name)
    complete_tf_slim()
    return found


def complete_tf_slim() -> None:
    """Let the modules of tf_slim that have been imported find the functions that TensorFlow has moved."""
    for module in [module for one, module in sys.modules.items() if one.startswith("tf_slim")]:
        names = vars(module)  # the global names of tf_slim's module; TensorFlow itself is not changed
        for name in _MODULES:
            if isinstance(names.get(name), ModuleType):
                names[name] = _WithMovedNames(names[name])
        if "normalization_layers" in names:  # it imports its class from a place where tf_keras no longer has it
            names["normalization_layers"] = importlib.import_module(tf.layers.BatchNormalization.__module__)


def require_keras_2(who: str) -> None:
    """
    Raise an ImportError if TensorFlow uses Keras 3, which has no `tf.layers`.

    Args:
        who: the name that needs Keras 2, for the message.
    """
    if TF_VERSION < (2, 16):
        return
    require_optional("tf_keras", who)
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() not in ("1", "true"):
        raise ImportError(
            f"{who}: needs Keras 2. Start the script with `tensorpack-lite run`, or set the environment variable "
            "TF_USE_LEGACY_KERAS=1 before TensorFlow is imported."
        )
