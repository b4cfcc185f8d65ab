"""`tf.contrib.summary`: the summaries of TensorFlow 2 in graph mode."""

from __future__ import annotations

from typing import Any

from ...compat import tensorflow
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, sources=("tf2.summary",), same=("summary",))


def always_record_summaries() -> Any:
    """Return a context in which summaries are recorded at every step."""
    return tensorflow.summary.record_if(True)


def never_record_summaries() -> Any:
    """Return a context in which no summary is recorded."""
    return tensorflow.summary.record_if(False)
