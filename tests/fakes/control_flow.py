"""The two kinds of control flow of TensorFlow."""

from __future__ import annotations

from contextlib import contextmanager

from tensorpack_lite.compat import tfv1 as tf


@contextmanager
def control_flow(is_v2: bool):
    """Build conditions and loops as functions, or else as operations of the graph as in TensorFlow 1, inside the block."""
    was_v2 = tf.control_flow_v2_enabled()
    (tf.enable_control_flow_v2 if is_v2 else tf.disable_control_flow_v2)()
    try:
        yield
    finally:
        (tf.enable_control_flow_v2 if was_v2 else tf.disable_control_flow_v2)()
