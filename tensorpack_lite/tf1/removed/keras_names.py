"""`import keras` of a script, which means Keras 2."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Sequence

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.tf1.tf1_behavior import prepare_tf1
from tensorpack_lite.tf1.view import view

from .said import caller, place_of, say


def import_keras(name: str, fromlist: Sequence[str] | None) -> Any:
    """
    Carry out a script's import of `keras` or one of its modules, as `builtins.__import__` does.

    Returns:
        The module of Keras 2, which is the script's `tf.keras`; None if the script gets the installed `keras`.

    Raises:
        ImportError: the module does not exist in Keras 2.
    """
    is_missing = TF_VERSION >= (2, 16) and find_spec("tf_keras") is None
    has_its_own = TF_VERSION < (2, 0) and find_spec("keras") is not None
    if is_missing or has_its_own:
        return None
    prepare_tf1()
    package = view().keras
    base = getattr(package, "_modules", [package])[0].__name__
    say("keras", f"keras is Keras 2, which the script gets as tf.keras: {base}.", place_of(caller()))
    parts = name.split(".")[1:]
    module = _load(base, parts) if fromlist else package
    if parts and not fromlist:
        _load(base, parts)
    for item in fromlist or ():
        if item != "*" and not hasattr(module, item):
            vars(module)[item] = _load(base, [*parts, item])
    return module


def _load(base: str, parts: Sequence[str]) -> ModuleType:
    """Import a module of Keras by its public name, or else by its name in the source of Keras."""
    root = base.split(".", maxsplit=1)[0]
    error: ImportError = ImportError()
    for start in (base, root, f"{root}.src", f"{root}.python.keras"):
        try:
            return importlib.import_module(".".join([start, *parts]))
        except ModuleNotFoundError as one:
            error = error if error.args else one
    raise error
