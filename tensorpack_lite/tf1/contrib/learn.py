"""`tf.contrib.learn`, which here has only its preprocessing of texts."""

from __future__ import annotations

from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(
    __name__, inner={"preprocessing": "tensorpack_lite.tf1.contrib._texts"}, same=("learn",)
)
