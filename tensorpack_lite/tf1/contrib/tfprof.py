"""`tf.contrib.tfprof`: the profiler of models, `model_analyzer`."""

from __future__ import annotations

from typing import Any

from ._lookup import Names

_NAMES = Names(
    __name__,
    sources=("tf.profiler",),
    inner={"model_analyzer": "tensorpack_lite.tf1.contrib._model_analyzer"},
)


def __getattr__(name: str) -> Any:
    return _NAMES.find(name)


def __dir__() -> list[str]:
    return _NAMES.listing()
