"""
The differences between TensorFlow 1.15 and the newest TensorFlow.

**In:** the installed TensorFlow, version 1.15 or newer.
**Out:** `tfv1`, a TF1-style module that works on all versions, and `ensure_graph_mode`.
**Next:** utils, and every package that uses TensorFlow.

Only this package imports TensorFlow. The rest of the library, and scripts that run on TensorFlow 1 and 2, write
`from tensorpack_lite.compat import tfv1 as tf`. Importing this package changes nothing in TensorFlow.
"""

from __future__ import annotations

import os
import re
from typing import Any

from ._alone import tensorflow_alone, uncollected
from .tf_log import silence_python_log

with tensorflow_alone(), uncollected():
    import tensorflow as _tensorflow

__all__ = ["TF_VERSION", "TensorSpec", "ensure_graph_mode", "is_tfv2", "tensorflow", "tfv1"]

_MINIMUM_VERSION = (1, 15)


def _parse_version(version: str) -> tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)", version).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


TF_VERSION = _parse_version(_tensorflow.__version__)
if TF_VERSION < _MINIMUM_VERSION:  # pragma: no cover (tests/compat runs it in another process)
    raise ImportError(
        f"tensorpack_lite needs TensorFlow 1.15 or newer, got {_tensorflow.__version__}. "
        'Run: pip install "tensorpack_lite[tf]"'
    )

# TensorFlow builds its modules lazily and has no usable stubs on TF 1.15, so they are Any to type checkers.
tensorflow: Any = _tensorflow
tfv1: Any = _tensorflow.compat.v1
TensorSpec: Any = _tensorflow.TensorSpec


def is_tfv2() -> bool:
    """
    Return whether TensorFlow 2 behavior is enabled, whatever the version.

    Returns:
        False on TF 1.15, and on TF 2 after `tf.compat.v1.disable_v2_behavior()`.
    """
    from .private import v2_behavior_enabled

    return v2_behavior_enabled()


def ensure_graph_mode() -> None:
    """
    Ensure that new operations are added to a graph.

    Every entry point that builds a graph calls this function. On TF 2, it disables eager execution for the process. If
    `tf.set_random_seed` or `tf.random.set_seed` set a seed before, the default graph gets this seed. On TF 1.15, and
    inside a `tf.Graph`, this function does nothing. TensorFlow's Python logger shows only errors, unless its
    level was set. Sessions get their own threads.

    Raises:
        RuntimeError: eager execution can no longer be disabled.
    """
    silence_python_log()
    give_sessions_threads()
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


def give_sessions_threads() -> None:
    """
    Let each session have the number of threads for operations that its config says, unless TF_OVERRIDE_GLOBAL_THREADPOOL is set.

    TensorFlow reads the variable once, when it opens the first session, whose threads would otherwise be those of all sessions.
    """
    os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "1")


_STILL_EAGER = (
    "tensorpack_lite builds TensorFlow graphs, but eager execution is enabled and can no longer be disabled. "
    "Add these two lines at the top of the script, before TensorFlow is used:\n"
    "    from tensorpack_lite import tfv1\n"
    "    tfv1.disable_eager_execution()"
)
