"""
`tensorflow` as a script of TensorFlow 1 sees it.

On TensorFlow 1.15, the view is `tensorflow` itself. On TensorFlow 2, it is `tensorflow.compat.v1` with TensorFlow 1's
behavior and the names that `compat.v1` has lost: `tf.contrib`, and those in `missing.py`.
"""

from __future__ import annotations

import importlib
import operator
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Mapping, NoReturn, Sequence

from ..compat import TF_VERSION, tensorflow, tfv1
from ..compat.replacement import add, replace
from . import old_flags
from .contrib._replacements import REPLACEMENTS as CONTRIB_REPLACEMENTS
from .missing import MISSING, REPLACEMENTS, describe_missing
from .old_orders import ORDERS, with_both_orders
from .renamed import RENAMED, find_renamed
from .tf1_behavior import prepare_tf1
from .unsupported import Unsupported, UnsupportedModule

_IS_TF1 = TF_VERSION < (2, 0)
_HAS_KERAS_2 = TF_VERSION < (2, 16) or find_spec("tf_keras") is not None
_PACKAGES = {path.rpartition(".")[0] for path in REPLACEMENTS}  # "" is `tf` itself
_MADE_OF_KERAS = ("keras", "layers", "nn.rnn_cell")  # what graphs need of tf_keras, from TensorFlow 2.16 on


class TF1View(ModuleType):
    """
    A module of TensorFlow 1, such as `tf` or `tf.train`, on TensorFlow 2.

    Args:
        name: its dotted name in TensorFlow 1, e.g. "tensorflow.train".
        modules: the modules that have its names; earlier ones take precedence.

    Raises:
        AttributeError: no module has the requested name. The message gives advice, or lists similar names.
    """

    def __init__(self, name: str, modules: Sequence[Any]) -> None:
        super().__init__(name, modules[0].__doc__)
        self.__dict__["_modules"] = modules

    def __getattr__(self, name: str) -> Any:
        value = self._find(name)
        path = f"{self.__name__}.{name}"
        if isinstance(value, ModuleType) and not isinstance(value, TF1View) and _is_public(path, value):
            value = TF1View(path, [value])
        self.__dict__[name] = value  # found there the next time
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute here and in TensorFlow, so that a script's replacement of a function reaches every user of it."""
        self.__dict__[name] = value
        add(self._modules[0], name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *(name for module in self._modules for name in dir(module))})

    def _find(self, name: str) -> Any:
        path = f"{self.__name__}.{name}".partition(".")[2]
        if path == "contrib":
            return importlib.import_module(".contrib", __package__)
        if _lacks_keras(path):
            raise AttributeError(_NEEDS_KERAS.format(path))
        if path in MISSING:
            return MISSING[path]()
        if path in ORDERS:
            return with_both_orders(path)
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        if path in RENAMED:
            return find_renamed(path)
        if not _IS_TF1:
            with suppress(AttributeError, ImportError):  # a name of TensorFlow 2 only, such as tf.random.set_seed
                return operator.attrgetter(path)(tensorflow)
        raise AttributeError(describe_missing(f"tf.{path}", self.__dir__, REPLACEMENTS.get(path, "")))


def _is_public(path: str, module: ModuleType) -> bool:
    """Return whether a module has only names of TensorFlow's interface, which scripts may misspell or miss."""
    return module.__name__.startswith("tensorflow._api.") or path.partition(".")[2] in _MADE_OF_KERAS


def _lacks_keras(path: str) -> bool:
    return not _HAS_KERAS_2 and f"{path}.".startswith(tuple(f"{one}." for one in _MADE_OF_KERAS))


_NEEDS_KERAS = 'tf.{} needs tf_keras, which is not installed. Run: pip install "tensorpack_lite[tf1]"'


@lru_cache(maxsize=None)
def view() -> Any:
    """
    Return the module that a script gets from `import tensorflow`.

    On TensorFlow 1.15 this is TensorFlow itself, to which the names of TensorFlow 0.x are added.
    """
    old_flags.install()
    if not _IS_TF1:
        return TF1View("tensorflow", [tfv1, tensorflow])
    for path in (*RENAMED, *ORDERS):
        package, _, name = path.rpartition(".")
        module = _find_tf1(package)
        if path in ORDERS:
            replace(module, name, with_both_orders(path))
        elif not hasattr(module, name):
            add(module, name, find_renamed(path))
    for package in _PACKAGES:
        _explain_names(_find_tf1(package), package)
    return tensorflow


def _find_tf1(package: str) -> Any:
    return operator.attrgetter(package)(tensorflow) if package else tensorflow


def explain_contrib(module: ModuleType) -> None:
    """Let `tf.contrib` of TensorFlow 1.15 name the replacements of modules that it has lost."""
    _explain_names(module, "contrib")


def _explain_names(module: Any, package: str) -> None:
    """Let a module of TensorFlow 1.15 name the replacements of names that it has lost."""

    def fail(name: str) -> NoReturn:
        path = f"{package}.{name}".lstrip(".")
        sentence = _sentence(path)
        message = f"module {module.__name__!r} has no attribute {name!r}"
        raise AttributeError(describe_missing(f"tf.{path}", list, sentence) if sentence else message)

    if "__getattr__" not in vars(module):
        add(module, "__getattr__", fail)


def import_module(name: str, fromlist: Sequence[str] | None) -> Any:
    """
    Carry out a script's import of `tensorflow` or one of its modules.

    Args:
        name: the dotted name of the module.
        fromlist: the names after `from ... import`; None or empty for `import ...`.

    Returns:
        The module, or the view of `tensorflow` if `fromlist` is empty, as `builtins.__import__` does.

    Raises:
        ImportError: the module, or a name in `fromlist`, does not exist.
    """
    prepare_tf1()
    module = _find_module(name)
    stand_ins = {item: _require(module, name, item) for item in fromlist or () if item != "*"}
    if any(stand_ins.values()):
        return _FromImport(module, stand_ins)
    return module if fromlist else view()


class _FromImport:
    """The object from which the statement `from module import ...` takes its names, if there are stand-ins among them."""

    def __init__(self, module: Any, stand_ins: Mapping[str, Any]) -> None:
        for name, stand_in in stand_ins.items():
            self.__dict__[name] = stand_in or getattr(module, name)


def _find_module(name: str) -> Any:
    """Return a module, or a stand-in for one that is known to be missing."""
    parts = name.split(".")
    if parts[1:2] == ["examples"]:
        return importlib.import_module(".mnist_tutorial", __package__).find_module(name)
    try:
        if _IS_TF1:
            return _load_tf1(name)
        if parts[1:2] == ["contrib"] and len(parts) > 2:
            return view().contrib.find_module(".".join(parts[2:]))
        return _find_public_module(name)
    except ImportError:
        path = ".".join(parts[1:])
        sentence = _sentence(path)
        if not sentence:
            raise
    # `import tensorflow.x as y` finds the stand-in under the name of the module that lacks it
    owner = view().contrib.__name__ if parts[1] == "contrib" else "tensorflow"
    key = f"{owner}.{path.partition('contrib.')[2] or path}"
    message = describe_missing(f"tf.{path}", list, sentence)
    return sys.modules.setdefault(key, UnsupportedModule(name, message))


def _load_tf1(name: str) -> ModuleType:
    """Import a module of TensorFlow 1.15. `tf.contrib` is another object than its package, and lacks what an import adds to that."""
    view()
    module = _load(name)
    path = name.partition(".")[2]
    if path in _PACKAGES:
        _explain_names(module, path)  # an import of `tensorflow.nn` replaces the `tf.nn` that there was
    package = name.partition("tensorflow.contrib.")[2].partition(".")[0]
    if package and not hasattr(tensorflow.contrib, package):
        add(tensorflow.contrib, package, sys.modules[f"tensorflow.contrib.{package}"])
    return module


def _sentence(path: str) -> str:
    """Return the sentence about a name below `tf` or about a module that contained it, or "" if none is known."""
    parts = path.split(".")
    keys = [".".join(parts[: i + 1]) for i in reversed(range(len(parts)))]
    known = (REPLACEMENTS.get(key) or CONTRIB_REPLACEMENTS.get(f"tf.{key}") for key in keys)
    return next((text for text in known if text), "")


def _find_public_module(name: str) -> Any:
    module = view()
    for part in name.split(".")[1:]:
        module = getattr(module, part, None)
        if not isinstance(module, ModuleType):  # a module that is not public, such as tensorflow.python
            return _load(name)
    return module


def _require(module: Any, name: str, item: str) -> Unsupported | None:
    """Raise ImportError if a module lacks a name; return a stand-in if the name is known to be missing."""
    try:
        getattr(module, item)
    except AttributeError as error:
        try:
            _load(f"{name}.{item}")
        except ModuleNotFoundError:
            if not _sentence(f"{name}.{item}".partition(".")[2]):
                raise ImportError(str(error), name=name) from None
            return Unsupported(str(error))
    return None


def _load(name: str) -> ModuleType:
    """Import a module of the real TensorFlow."""
    path = name.partition(".")[2]
    if _lacks_keras(path):
        raise ImportError(_NEEDS_KERAS.format(path), name=name)
    __import__(name)  # unlike importlib, it adds no frames to the traceback of an error
    return sys.modules[name]
