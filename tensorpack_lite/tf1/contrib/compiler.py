"""`tf.contrib.compiler`: `jit` and `xla`, whose functions are in `tf.xla.experimental` today."""

from __future__ import annotations

from ._lookup import contrib_names

_MODULE = "tensorpack_lite.tf1.contrib._xla"

__getattr__, __dir__ = contrib_names(__name__, inner={"jit": _MODULE, "xla": _MODULE})
