"""
`tf.contrib` of TensorFlow 1.15, for TensorFlow 2.

**In:** the installed TensorFlow, tf_slim, and tf_keras where TensorFlow has Keras 3.
**Out:** `find_module`, and one module per module of `tf.contrib`.
**Next:** the TF 1 view that `tensorpack-lite run` gives to a script.

A module has the names of tf_slim and TensorFlow where they exist, and thin code of this package otherwise. A name that
does not exist raises an AttributeError that names a replacement. TensorFlow 1.15 has its own `tf.contrib`, and the view
uses that one.
"""

from __future__ import annotations

from types import ModuleType

from . import _lookup

# The modules of this package. `cudnn_rnn` and the like, which have no contents, are in `_lookup.REPLACEMENTS`.
MODULES = (
    "compiler",
    "data",
    "deprecated",
    "distributions",
    "framework",
    "image",
    "layers",
    "learn",
    "legacy_seq2seq",
    "losses",
    "memory_stats",
    "metrics",
    "opt",
    "rnn",
    "seq2seq",
    "slim",
    "summary",
    "tfprof",
    "training",
    "util",
)
# modules of tf.contrib that TensorFlow 2 has under another name
MOVED = {"autograph": "autograph", "lookup": "lookup", "signal": "signal"}


def find_module(name: str) -> ModuleType:
    """
    Return a module of `tf.contrib`.

    Args:
        name: the dotted name below `tf.contrib`, such as "slim", "slim.nets.resnet_v1" or "layers.python.layers.utils".
            Below `python`, a module that does not exist is the one that contains it, which has all of its names.

    Returns:
        The module.

    Raises:
        ImportError: there is no such module, with a replacement if one is known; or tf_slim or tf_keras is
            not installed.
    """
    first, *rest = name.split(".")
    try:
        found = _find_first(first)
        for i, part in enumerate(rest):
            inner = getattr(found, part, None) if "python" in rest[:i] else getattr(found, part)
            if isinstance(inner, ModuleType):
                found = inner
            elif "python" not in rest[:i]:
                raise ImportError(f"tensorflow.contrib.{name} is not a module (got a {type(inner).__name__}).")
    except AttributeError as error:
        raise ImportError(f"No module named tensorflow.contrib.{name}. {error}") from error
    return found


def _find_first(name: str) -> ModuleType:
    if name in MODULES:
        return _lookup.import_source(f"{__name__}.{name}")
    if name in MOVED:
        return _lookup.import_source(f"tf.{MOVED[name]}")
    raise _lookup.missing("tf.contrib", name, __dir__)


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _find_first(name)


def __dir__() -> list[str]:
    return sorted([*MODULES, *MOVED])
