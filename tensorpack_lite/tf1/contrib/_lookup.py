"""Lookup of a name of `tf.contrib` in tf_slim and TensorFlow, with an error that names a replacement."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, Iterable, Mapping, Sequence

from ...compat import tensorflow
from ...compat import tfv1 as tf
from ..missing import describe_missing
from ._replacements import REPLACEMENTS
from ._slim import import_tf_slim, require_keras_2


def contrib_names(
    module: str,
    sources: Sequence[str] = (),
    inner: Mapping[str, str] | None = None,
    same: Sequence[str] = (),
    title: str = "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """
    Return `__getattr__` and `__dir__` of a module of `tf.contrib`, for the names that it does not define itself.

    `__getattr__` raises an AttributeError if no source has the name, with a replacement if one is known; and an ImportError
    if tf_slim or tf_keras is not installed.

    Args:
        module: `__name__` of the module.
        sources: where to look for a name, in this order: modules of TensorFlow ("tf" or "tf.nn", of
            compat.v1) or tf_slim. They are imported when the first name is looked up.
        inner: attributes that are modules, `{name: dotted name}`. In TensorFlow 1.15 these are submodules.
        same: attributes that are the module itself, besides "python". In TensorFlow 1.15 these are inner packages.
        title: the module as scripts call it. The default is "tf.contrib" and the last part of `module`.
    """
    title = title or f"tf.contrib.{module.rsplit('.', 1)[1]}"
    modules = {**(inner or {}), **dict.fromkeys(("python", *same), module)}

    def find(name: str) -> Any:
        if name == "__all__":  # from tensorflow.contrib.slim import *
            return listing()
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name in modules:
            return import_source(modules[name])
        if f"{title}.{name}" in REPLACEMENTS:
            raise missing(title, name, list)
        for source in map(import_source, sources):
            if hasattr(source, name):
                return getattr(source, name)
        raise missing(title, name, listing)

    def listing() -> list[str]:
        names = set(vars(sys.modules[module])).union(*(dir(import_source(source)) for source in sources))
        return sorted(name for name in names if not name.startswith("_") and name != "annotations")

    return find, listing


def import_source(name: str) -> Any:
    """
    Import a module of this package, tf_slim or TensorFlow.

    Args:
        name: a dotted name; "tf" means `tf.compat.v1`, and "tf2" the namespace of TensorFlow 2.

    Raises:
        ImportError: tf_slim or tf_keras is not installed, or TensorFlow uses Keras 3.
    """
    root, _, rest = name.partition(".")
    if root in ("tf", "tf2"):
        found = tf if root == "tf" else tensorflow
        if name in ("tf.layers", "tf.nn.rnn_cell"):
            require_keras_2(name)
        for part in rest.split(".") if rest else ():
            found = getattr(found, part)
        return found
    if root == "tf_slim":
        return import_tf_slim(name)
    return importlib.import_module(name)


def missing(module: str, name: str, known: Callable[[], Iterable[str]]) -> AttributeError:
    """
    Return the error for a name that does not exist.

    Args:
        module: the module as scripts call it, such as "tf.contrib.layers".
        name: the name that was looked up.
        known: returns the names that the module has.
    """
    full = f"{module}.{name}"
    keys = (full, full.replace("tf.contrib.slim.", "tf.contrib.layers."), module)
    replacement = next((REPLACEMENTS[key] for key in keys if key in REPLACEMENTS), "")
    return AttributeError(describe_missing(full, known, replacement))
