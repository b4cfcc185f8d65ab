"""`tf.contrib.compiler.jit` and `tf.contrib.compiler.xla`."""

from __future__ import annotations

from ...compat import tfv1 as tf

compile = tf.xla.experimental.compile
experimental_jit_scope = tf.xla.experimental.jit_scope
