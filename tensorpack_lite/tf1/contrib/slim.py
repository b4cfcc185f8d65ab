"""`tf.contrib.slim`: tf_slim, and the names of `tf.contrib.layers` that tf_slim keeps elsewhere."""

from __future__ import annotations

from typing import Any

from ._lookup import Names

_NAMES = Names(
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


def __getattr__(name: str) -> Any:
    return _NAMES.find(name)


def __dir__() -> list[str]:
    return _NAMES.listing()
