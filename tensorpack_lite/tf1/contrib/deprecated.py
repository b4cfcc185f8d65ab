"""`tf.contrib.deprecated`: the summaries of TensorFlow 0.x."""

from __future__ import annotations

from typing import Any

from ..renamed import find_renamed
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, sources=("tensorpack_lite.tf1.renamed",))


def merge_summary(inputs: Any, collections: Any = None, name: str | None = None) -> Any:
    """Merge summaries, like `tf.summary.merge`."""
    return find_renamed("merge_summary")(inputs, collections, name)


def merge_all_summaries(key: str = "summaries") -> Any:
    """Merge all summaries of a collection, like `tf.summary.merge_all`."""
    return find_renamed("merge_all_summaries")(key)
