"""
An import of TensorFlow without Keras, which takes up to half of the time (`benchmarks/import_time.py`), and without garbage
collections, which take a fifth of the CPU time: 0.4 of 2.2 s for TensorFlow 2.21.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import Iterator

# the modules that `import tensorflow` tries to import, seen in 2.15 and 2.21; the second one if TF_USE_LEGACY_KERAS is set
_KERAS = ("keras.src.optimizers", "tf_keras.src.optimizers")


@contextmanager
def tensorflow_alone() -> Iterator[None]:
    """
    Context in which `import tensorflow` does not import Keras. It is imported at the first use of `tf.keras`.

    TensorFlow 2 tries to import one module of Keras. In this context, this module seems not to exist. If TensorFlow or Keras
    has been imported before, the context changes nothing.
    """
    if not {"tensorflow", *_KERAS}.isdisjoint(sys.modules):
        yield
        return
    sys.modules.update(dict.fromkeys(_KERAS))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in _KERAS:
            del sys.modules[name]


@contextmanager
def uncollected() -> Iterator[None]:
    """Context for the import of TensorFlow, in which no garbage is collected. Nothing is different afterwards."""
    if "tensorflow" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
