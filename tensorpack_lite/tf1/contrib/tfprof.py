"""`tf.contrib.tfprof`: the profiler of models, `model_analyzer`."""

from __future__ import annotations

from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=("tf.profiler",),
    inner={"model_analyzer": "tensorpack_lite.tf1.contrib._model_analyzer"},
)
