"""`tfv1` for type checkers: a module whose names are Any, so that `tf.Tensor` can be an annotation."""

from typing import Any

def __getattr__(name: str) -> Any: ...
