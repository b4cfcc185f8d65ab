"""
What differs between TensorFlow 1.15 and the newest TensorFlow, and nothing of our own.

**In:** the installed TensorFlow, any version from 1.15 on.
**Out:** `tfv1`, one TF1-style module that works on all of them, and `ensure_graph_mode`.
**Next:** utils, and with it every package that touches TensorFlow.

This is the only package that imports TensorFlow. The rest of the library, and scripts that must run on
both majors, write `from tensorpack_lite.compat import tfv1 as tf`. Importing it changes nothing.
"""

from __future__ import annotations

import re
from typing import Any

import tensorflow as _tensorflow

__all__ = ["TF_VERSION", "TensorSpec", "ensure_graph_mode", "is_tfv2", "tensorflow", "tfv1"]

_MINIMUM_VERSION = (1, 15)


def _parse_version(version: str) -> tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


TF_VERSION = _parse_version(_tensorflow.__version__)
if TF_VERSION < _MINIMUM_VERSION:  # pragma: no cover (tests/compat asks a process of its own)
    raise ImportError(
        f"tensorpack_lite needs TensorFlow 1.15 or newer, got {_tensorflow.__version__}. "
        'Install one: pip install "tensorpack_lite[tf]".'
    )

# TensorFlow's modules are built lazily and have no usable stubs on TF 1.15: to type checkers they are Any.
tensorflow: Any = _tensorflow
tfv1: Any = _tensorflow.compat.v1
TensorSpec: Any = _tensorflow.TensorSpec


def is_tfv2() -> bool:
    """
    Tell whether TensorFlow 2 behaviour is switched on; this is about the switch, not the version.

    Returns:
        False on TF 1.15, and on TF 2 after `tf.compat.v1.disable_v2_behavior()`.
    """
    from .private import v2_behavior_enabled

    return v2_behavior_enabled()


def ensure_graph_mode() -> None:
    """
    Make sure that operations created from now on go into a graph.

    Every entry point that builds a graph calls this function. On TF 2, where code runs eagerly by default, it
    switches eager execution off for the process. A seed set before by `tf.set_random_seed` or `tf.random.set_seed`
    becomes the seed of the default graph. On TF 1.15, and inside a `tf.Graph`, nothing happens.

    Raises:
        RuntimeError: eager execution cannot be left any more at this point.
    """
    if not tfv1.executing_eagerly():
        return
    from .private import eager_seed

    seed = eager_seed()
    try:
        tfv1.disable_eager_execution()
    except ValueError as error:
        raise RuntimeError(_STILL_EAGER) from error
    if tfv1.executing_eagerly():
        raise RuntimeError(_STILL_EAGER)
    if seed is not None:
        tfv1.set_random_seed(seed)


_STILL_EAGER = (
    "tensorpack_lite builds TensorFlow graphs, but TensorFlow executes eagerly here and cannot be switched any more. "
    "Put these two lines at the top of the script, before anything else uses TensorFlow:\n"
    "    from tensorpack_lite import tfv1\n"
    "    tfv1.disable_eager_execution()"
)
