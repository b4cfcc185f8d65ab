"""
List the public names of TensorFlow 1.15: all modules one level deep, some two, and modules of `tf.contrib`.

    python list_names.py > tf115_names.txt      on TensorFlow 1.15
"""

import types

import tensorflow as tf

CONTRIB = [
    "cudnn_rnn",
    "data",
    "framework",
    "image",
    "layers",
    "losses",
    "memory_stats",
    "metrics",
    "opt",
    "quantize",
    "rnn",
    "seq2seq",
    "slim",
    "summary",
    "tfprof",
    "training",
    "util",
]
# not names that scripts use: future imports, the C API, and raw operations
LEFT_OUT = {
    "absolute_import",
    "division",
    "print_function",
    "contrib",
    "compat",
    "loader",
    "pywrap_tensorflow",
    "raw_ops",
}


def public(module):
    """Return the public names of a module, sorted."""
    return sorted(name for name in dir(module) if not name.startswith("_") and name not in LEFT_OUT)


def is_ours(thing):
    """Return whether a value is a module of TensorFlow's API."""
    return isinstance(thing, types.ModuleType) and "tensorflow" in thing.__name__


def names():
    """Return all dotted names below `tf`."""
    found = set()
    for name in public(tf):
        found.add(name)
        value = getattr(tf, name)
        if is_ours(value):
            found.update(name + "." + inner for inner in public(value))
    found.update("nn.rnn_cell." + inner for inner in public(tf.nn.rnn_cell))
    for module in CONTRIB:
        contrib = getattr(tf.contrib, module)
        found.update(
            "contrib." + module + "." + inner
            for inner in public(contrib)
            if not isinstance(getattr(contrib, inner), types.ModuleType) or inner in ("model_analyzer", "nest")
        )
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(names()))
