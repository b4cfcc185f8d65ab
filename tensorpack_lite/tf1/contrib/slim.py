"""`tf.contrib.slim`: tf_slim, and the names of `tf.contrib.layers` that tf_slim keeps elsewhere."""

from __future__ import annotations

from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=("tf_slim", "tensorpack_lite.tf1.contrib.layers", "tensorpack_lite.tf1.contrib.framework"),
    inner={
        "layers": "tensorpack_lite.tf1.contrib.layers",
        "learning": "tf_slim.learning",
        "nets": "tf_slim.nets",
        "variables": "tf_slim.ops.variables",
    },
    same=("ops", "slim"),
)
