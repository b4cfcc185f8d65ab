"""`tf.contrib.framework.nest`: functions on nested structures of lists, tuples and dicts."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf
from ._lookup import contrib_names

__getattr__, __dir__ = contrib_names(__name__, sources=("tf.nest",), title="tf.contrib.framework.nest")


def is_sequence(structure: Any) -> bool:
    """Return whether a structure is a list, tuple or dict."""
    return tf.nest.is_nested(structure)
