"""The part of `tensorpack-lite run --check` about libraries other than TensorFlow and tensorpack."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Callable, Iterable, Iterator, Sequence

from .addresses import describe
from .rewrite import Use, rewrite
from .table import BUILTINS, MODULES, NAMES, PYTHON_2_MODULES, PYTHON_2_NAMES

# Libraries whose modules are searched for names that do not exist
LIBRARIES = ("PIL", "matplotlib", "numpy", "scipy", "skimage", "sklearn")
# Attributes that other classes have, too, so that reading a file does not tell whether they are missing
_UNCERTAIN = {"decode", "fromstring", "getchildren", "getiterator", "getsize", "message", "ptp"}


def find_provided(name: str) -> str:
    """
    Return what `tensorpack-lite run` does about a name that the installed libraries and Python do not have.

    Args:
        name: a dotted name, e.g. "numpy.float" or "sklearn.externals.joblib".

    Returns:
        A sentence; "" if the name exists, or nothing provides it.
    """
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        path = ".".join(parts[:length])
        address = MODULES.get(path, PYTHON_2_MODULES.get(path))
        if address is not None and not _exists(path):
            return f"the module {path} was removed. Under run, it is {describe(address)}."
    for length in range(1, len(parts)):
        path, attribute = ".".join(parts[:length]), parts[length]
        address = NAMES.get(path, {}).get(attribute) or PYTHON_2_NAMES.get(path, {}).get(attribute)
        if address and _lacks(path, attribute):
            return f"{path}.{attribute} was removed. Under run, it is {describe(address)}."
    return ""


def _exists(name: str) -> bool:
    """Return whether Python finds a module without the help of `run`."""
    parent, _, _ = name.rpartition(".")
    if name in sys.builtin_module_names:
        return True
    try:
        folders = list(importlib.import_module(parent).__path__) if parent else None
        return PathFinder.find_spec(name, folders) is not None
    except (AttributeError, ImportError):
        return False


def _lacks(path: str, attribute: str) -> bool:
    """Return whether a module has no such attribute by itself. A library that is not installed is taken for its newest version."""
    if not _exists(path.partition(".")[0]):
        return True
    if not _exists(path):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module: ModuleType = importlib.import_module(path)
    except ImportError:
        return False
    return attribute not in vars(module)


def find_calls(tree: ast.Module, name_of: Callable[[ast.AST], str]) -> Iterator[tuple[int, str, str, bool]]:
    """
    Yield (line, name, sentence, is_provided) for calls of functions whose arguments have changed.

    Args:
        tree: the syntax tree of a file.
        name_of: returns the full name of a function, such as "numpy.load", for the node that is called.
    """
    nodes = list(ast.walk(tree))
    calls = [(node, name_of(node.func)) for node in nodes if isinstance(node, ast.Call)]
    pickled = _calls_with_items(nodes)
    for node, name in calls:
        arguments = {keyword.arg for keyword in node.keywords}
        if name in ("yaml.load", "yaml.load_all") and len(node.args) == 1 and not arguments and _yaml_needs_loader():
            sentence = "a call without a Loader is an error. Under run, the Loader is yaml.FullLoader."
            yield node.lineno, name, sentence, True
        elif name == "numpy.fromstring" and "sep" not in arguments and _version("numpy") >= (2, 3):
            sentence = "reading bytes was removed. Under run, it is a copy of numpy.frombuffer."
            yield node.lineno, name, sentence, True
        elif name == "numpy.load" and (id(node) in pickled or "encoding" in arguments) and len(node.args) < 3:
            sentence = "pickled objects are read only on request. If you trust the file, pass allow_pickle=True."
            if not arguments & {"allow_pickle", None}:  # None: **arguments
                yield node.lineno, name, sentence, False


def _calls_with_items(nodes: Sequence[ast.AST]) -> set[int]:
    """Return the ids of the calls whose results are used by `.item()` or `[()]`, as those that contain one pickled object are."""
    names: dict[str, list[int]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    names.setdefault(target.id, []).append(id(node.value))
    found: set[int] = set()
    for node in nodes:
        is_item = isinstance(node, ast.Attribute) and node.attr == "item"
        index = getattr(node, "slice", None) if isinstance(node, ast.Subscript) else None
        index = getattr(index, "value", index) if type(index).__name__ == "Index" else index
        if is_item or (isinstance(index, ast.Tuple) and not index.elts):
            owner = node.value  # type: ignore[attr-defined]
            found.update(names.get(owner.id, []) if isinstance(owner, ast.Name) else [id(owner)])
    return found


def find_changes(tree: ast.Module, source: bytes, names: Iterable[tuple[str, int]]) -> Iterator[tuple[int, str, str]]:
    """
    Yield (line, name, sentence) for what `run` changes in a file in memory.

    Args:
        tree: the syntax tree of the file, which is changed.
        source: its text.
        names: the dotted names that the file uses, and their lines.
    """
    for name, line in names:
        if name == "scipy.interpolate.interp2d" and _version("scipy") >= (1, 14):
            yield line, name, "it was removed. Under run, it is provided by tensorpack_lite."
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for use in rewrite(tree):
        sentence = _describe(use, defined, source)
        if sentence:
            yield use.line, use.name if use.kind != "attribute" else f".{use.name}", sentence


def _describe(use: Use, defined: set[str], source: bytes) -> str:
    if use.kind == "builtin":
        return f"Python 3 does not have it. Under run, it is {describe(BUILTINS[use.name])}."
    is_of_font = use.name == "getsize" and b"ImageFont" in source and b"path.getsize" not in source
    if is_of_font or (use.kind == "attribute" and use.name not in _UNCERTAIN | defined):
        return "it was removed from several classes. Under run, it works in the files of the script."
    is_newer = {
        "array(copy=)": _version("numpy") >= (2, 0),
        "reshape(newshape=)": _version("numpy") >= (2, 0),
        "File(path)": b"h5py" in source,
    }
    if use.kind == "argument" and is_newer.get(use.name, True) and "encoding" not in use.name:
        return "the argument was removed or has another meaning. Under run, it works in the files of the script."
    if use.kind == "mode" and is_newer.get(use.name, sys.version_info >= (3, 11)):
        return "the mode was removed or has another meaning. Under run, it works in the files of the script."
    if use.kind == "item":
        return "it is not a list in Python 3. Under run, it is one here."
    return ""


def _version(name: str) -> tuple[int, int]:
    version = importlib.import_module(name).__version__.split(".")
    return int(version[0]), int(version[1])


def _yaml_needs_loader() -> bool:
    return not _exists("yaml") or _version("yaml") >= (6, 0)
