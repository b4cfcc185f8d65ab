"""`tf.contrib.metrics`: the streaming metrics of tf_slim."""

from __future__ import annotations

from typing import Any

from ._lookup import Names

_NAMES = Names(__name__, sources=("tf_slim.metrics", "tf.math", "tf.sets"), same=("metrics", "ops"))


def __getattr__(name: str) -> Any:
    return _NAMES.find(name)


def __dir__() -> list[str]:
    return _NAMES.listing()
