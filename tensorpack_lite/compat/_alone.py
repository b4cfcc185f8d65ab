"""An import of TensorFlow without Keras, which takes up to half of the time (`benchmarks/import_time.py`)."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Iterator

__all__ = ["tensorflow_alone"]

_KERAS = "keras.src.optimizers"  # the module that `import tensorflow` tries to import, seen in 2.15 and 2.21


@contextmanager
def tensorflow_alone() -> Iterator[None]:
    """
    Context in which `import tensorflow` does not import Keras. It is imported at the first use of `tf.keras`.

    TensorFlow 2 tries to import one module of Keras. In this context, that module seems not to exist. If TensorFlow or Keras
    has been imported before, the context changes nothing.
    """
    if "tensorflow" in sys.modules or _KERAS in sys.modules:
        yield
        return
    sys.modules[_KERAS] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[_KERAS]
