"""`tf.contrib.distributions`: the classes of tensorflow_probability if it is installed, and of `tf.distributions` otherwise."""

from __future__ import annotations

from importlib.util import find_spec

from ._lookup import contrib_names

_PROBABILITY = "tensorflow_probability.python"
_HAS_PROBABILITY = find_spec("tensorflow_probability") is not None

__getattr__, __dir__ = contrib_names(
    __name__,
    sources=(f"{_PROBABILITY}.distributions", "tf.distributions") if _HAS_PROBABILITY else ("tf.distributions",),
    inner={"bijectors": f"{_PROBABILITY}.bijectors"} if _HAS_PROBABILITY else {},
    same=("distributions", "ops"),
)
