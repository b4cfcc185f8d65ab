"""`import keras` of a script, which means Keras 2, with the modules that it had in versions 2.0 to 2.3."""

from __future__ import annotations

import importlib
import operator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Mapping, Sequence

from tensorpack_lite.compat import TF_VERSION
from tensorpack_lite.compat.replacement import replace
from tensorpack_lite.tf1.tf1_behavior import prepare_tf1
from tensorpack_lite.tf1.view import TF1View, view
from tensorpack_lite.utils.gpu import pretended_gpus

from .addresses import resolve
from .said import say

_LAYERS = """advanced_activations convolutional convolutional_recurrent core cudnn_recurrent embeddings local merge noise
    normalization pooling recurrent wrappers"""
_ENGINE = "base_layer input_layer network saving sequential topology training"

# {module below `keras`: the modules of today that have its names}
_MODULES: Mapping[str, str] = {
    **{f"layers.{name}": "layers" for name in _LAYERS.split()},
    **dict.fromkeys(["engine", *(f"engine.{name}" for name in _ENGINE.split())], "layers models utils"),
    "backend.tensorflow_backend": "backend",
    "initializations": "initializers",
    "legacy": "layers models",
    "legacy.layers": "layers",
    "objectives": "losses",
    **{f"utils.{name}": "utils" for name in ("generic_utils", "multi_gpu_utils", "np_utils", "training_utils")},
}

# {such a module: the module in the source of Keras that has its other names}
_SOURCES: Mapping[str, str] = {"backend.tensorflow_backend": "backend"}

# {name below `keras`: its address}
_NAMES: Mapping[str, str] = {
    "backend.image_dim_ordering": ".keras_parts.image_dim_ordering",
    "backend.set_image_dim_ordering": ".keras_parts.set_image_dim_ordering",
    "legacy.interfaces": ".keras_parts",
    "utils.multi_gpu_model": ".keras_parts.multi_gpu_model",
}


def import_keras(name: str, fromlist: Sequence[str] | None) -> Any:
    """
    Carry out a script's import of `keras` or one of its modules, as `builtins.__import__` does.

    Returns:
        The module of Keras 2, which is the script's `tf.keras`; None if the script gets the installed `keras`.

    Raises:
        ImportError: the module does not exist in Keras 2.
    """
    package = find_keras()
    if package is None:
        return None
    say("keras", f"keras is Keras 2, which the script gets as tf.keras: {_base(package)}.")
    parts = name.split(".")[1:]
    module = load_module(package, parts) if parts else package
    for item in fromlist or ():
        if item != "*" and not hasattr(module, item):
            vars(module)[item] = load_module(package, [*parts, item])
    return module if fromlist else package


@lru_cache(maxsize=None)
def find_keras() -> Any:
    """Return `tf.keras` with its old modules and names; None if `import keras` means the installed `keras`."""
    is_missing = TF_VERSION >= (2, 16) and find_spec("tf_keras") is None
    has_its_own = TF_VERSION < (2, 0) and find_spec("keras") is not None
    if is_missing or has_its_own:
        return None
    prepare_tf1()
    package = view().keras
    for path, sources in _MODULES.items():
        modules = [getattr(package, source) for source in sources.split()]
        with suppress(ImportError):
            modules.append(_load_source(package, _SOURCES.get(path, path)))
        _set(package, path, TF1View(f"tensorflow.keras.{path}", modules))
    for path, address in _NAMES.items():
        _set(package, path, resolve(address))
    _set(package, "backend.tf", view())
    if pretended_gpus() and TF_VERSION < (2, 0):  # whose function does not count them
        replace(package.utils, "multi_gpu_model", resolve(_NAMES["utils.multi_gpu_model"]))
    return package


def _set(package: Any, path: str, value: Any) -> None:
    owner, _, name = path.rpartition(".")
    module = operator.attrgetter(owner)(package) if owner else package
    if not hasattr(module, name):
        vars(module)[name] = value


def _base(package: Any) -> str:
    return getattr(package, "_modules", [package])[0].__name__


def load_module(package: Any, parts: Sequence[str]) -> ModuleType:
    """
    Return a module of Keras by its public name, or else by its name in the source of Keras.

    Args:
        package: the result of `find_keras`.
        parts: the parts of the name below `keras`.

    Raises:
        ModuleNotFoundError: there is no such module.
    """
    path = ".".join(parts)
    try:
        found = operator.attrgetter(path)(package)
    except AttributeError as error:
        try:
            return _load_source(package, path)
        except ModuleNotFoundError:
            raise ModuleNotFoundError(str(error), name=f"keras.{path}") from None
    if not isinstance(found, ModuleType):
        raise ModuleNotFoundError(f"keras.{path} is not a module (got a {type(found).__name__}).")
    return found


def _load_source(package: Any, path: str) -> ModuleType:
    base = _base(package)
    root = base.split(".", maxsplit=1)[0]
    error = ModuleNotFoundError()
    for start in (f"{root}.src", f"{root}.python.keras", root, base):
        try:
            return importlib.import_module(f"{start}.{path}")
        except ModuleNotFoundError as one:
            error = one
    raise error
