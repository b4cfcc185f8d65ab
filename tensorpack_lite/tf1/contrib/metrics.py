"""`tf.contrib.metrics`: the streaming metrics of tf_slim."""

from __future__ import annotations

from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__, sources=("tf_slim.metrics", "tf.math", "tf.sets"), same=("metrics", "ops")
)
