"""Description of objects by JSON values, so that the settings of two trainings can be compared."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import os
import re
import types
import zlib
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any, Iterator

import numpy as np

from ..fs import recursive_walk

__all__ = ["checksum", "describe", "describe_files"]

_LIBRARY = __name__.split(".")[0]
_MAX_VALUES = 2000
_MAX_DEPTH = 16
_MAX_ITEMS = 32  # a longer list or dict is described by its length and a digest
_NUM_DIGESTED = {True: 10000, False: 256}  # of its items, by whether the first one is a plain value
_MAX_CHARS = 2000
_NUM_SAMPLED = 4096
_MAX_FILES = 10000
_TEXTUAL = (Enum, PurePath, date, np.dtype, range, slice, type(re.compile("")))
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_PLAIN = (type(None), bool, int, float, str)


def describe(value: object) -> Any:
    """
    Describe a value by JSON values. Equal settings have equal descriptions in every process.

    An object is described by its class, its length, and the attributes that have the names of its constructor's
    arguments; if some of these are missing, by all of its public attributes. A function is described by its name, a
    digest of its code, and the variables that it captures; an array by its dtype, shape and a checksum.

    Args:
        value: anything. Classes of TensorFlow are described by their name only.
    """
    return _Describer().of(value, 0)


def checksum(array: np.ndarray) -> str:
    """Return the dtype, the shape, and the CRC-32 of all elements or, of a large array, of about 4096 of them."""
    flat = array.reshape(-1)[:: max(1, array.size // _NUM_SAMPLED) | 1]
    content = repr(flat.tolist()).encode() if array.dtype.hasobject else flat.tobytes()
    return f"{array.dtype} {array.shape} {zlib.crc32(content):08x}"


def describe_files(description: object) -> dict[str, dict[str, Any]]:
    """
    Find the files that a description names, and count those in directories, up to 10,000.

    Args:
        description: the result of `describe`.

    Returns:
        path -> {"files": number, "bytes": total, "newest": the latest time of a change, in seconds since 1970}.
    """
    return {path: _count_files(path) for path in sorted(set(_strings(description))) if _is_path(path)}


class _Describer:
    """Description of one value. All values inside it are counted, so that a large structure has a short description."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        self._open: list[int] = []  # objects that contain the present one

    def of(self, value: object, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return value[:_MAX_CHARS]
        if value is None or (isinstance(value, (bool, int)) and not isinstance(value, Enum)):
            return value
        if isinstance(value, np.generic):
            item = value.item()
            return str(item) if isinstance(item, np.generic) else self.of(item, depth)
        if isinstance(value, type):
            return {"class": _name_of(value)}
        if self._left < 0 or depth > _MAX_DEPTH or id(value) in self._open:
            return {"type": _name_of(type(value))}
        self._open.append(id(value))
        try:
            return self._structure(value, depth + 1)
        except Exception as error:  # noqa: BLE001 (a property or `__len__` of a user's class may raise anything)
            return {"type": _name_of(type(value)), "error": f"{type(error).__name__}: {error}"}
        finally:
            self._open.pop()

    def _structure(self, value: Any, depth: int) -> Any:
        if isinstance(value, np.ndarray):
            return {"array": checksum(value)}
        if isinstance(value, bytes):
            return {"length": len(value), "digest": _digest(value.hex())}
        if isinstance(value, _TEXTUAL):
            return str(value)[:_MAX_CHARS]
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return self._container(value, depth)
        if isinstance(value, (*_FUNCTIONS, functools.partial)):
            return self._function(value, depth)
        return self._object(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict) and len(value) <= _MAX_ITEMS:
            return {str(key): self.of(item, depth) for key, item in value.items()}
        items = value if isinstance(value, (list, tuple)) else sorted(value, key=repr)
        if len(items) <= _MAX_ITEMS:
            return [self.of(item, depth) for item in items]
        step = max(1, len(items) // _NUM_DIGESTED[isinstance(items[0], _PLAIN)])
        sampled = [[one, value[one]] if isinstance(value, dict) else one for one in items[::step]]
        content = [_Describer().of(item, depth) for item in sampled]
        return {"length": len(items), "digest": _digest(json.dumps(content))}

    def _function(self, value: Any, depth: int) -> dict[str, Any]:
        if isinstance(value, functools.partial):
            given = {"args": value.args, **value.keywords}
            return {"partial": self.of(value.func, depth), "arguments": self.of(given, depth)}
        described: dict[str, Any] = {"function": _name_of(value)}
        function = getattr(value, "__func__", value)
        code = getattr(function, "__code__", None)
        if code is not None:
            described["code"] = _digest(_code_text(code))
            cells = zip(code.co_freevars, function.__closure__ or ())
            described["captured"] = {name: self.of(cell.cell_contents, depth) for name, cell in cells}
        if isinstance(value, types.MethodType):
            described["of"] = self.of(value.__self__, depth)
        return described

    def _object(self, value: Any, depth: int) -> dict[str, Any]:
        kind = type(value)
        described: dict[str, Any] = {"type": _name_of(kind)}
        if hasattr(kind, "SerializeToString"):  # a message of protobuf
            return {**described, "value": str(value)[:_MAX_CHARS]}
        if kind.__module__.split(".")[0] == "tensorflow":
            name = getattr(value, "name", None)
            return {**described, "name": name} if isinstance(name, str) else described
        arguments = {name: self.of(item, depth) for name, item in _arguments(value).items()}
        if arguments:
            described["arguments"] = arguments
        if hasattr(kind, "__len__"):
            try:
                described["length"] = len(value)
            except NotImplementedError:  # a DataFlow of unknown length
                described["length"] = None
        return described


def _arguments(value: object) -> dict[str, Any]:
    """Return the attributes of an object that hold arguments of its constructor, or all that are public."""
    attributes = getattr(value, "__dict__", {})
    try:
        parameters = list(inspect.signature(type(value).__init__).parameters)[1:]  # type: ignore[misc]
    except (TypeError, ValueError):  # a class without a signature
        parameters = []
    found = {}
    for name in parameters:
        exact = [one for one in (name, f"_{name}") if one in attributes]
        similar = [one for one in attributes if one.lstrip("_").startswith(f"{name}_")]
        stored = next(iter(exact + similar), None)
        if stored is not None:
            found[name] = attributes[stored]
    if len(found) < len(parameters) or not parameters:
        public = {name: item for name, item in attributes.items() if not name.startswith("_")}
        found.update({name: public[name] for name in public if name not in ("graph", "trainer")})
    return found


def _name_of(thing: Any) -> str:
    """Return the name of a class or function, with its module unless it belongs to this library."""
    name = getattr(thing, "__qualname__", type(thing).__name__)
    module = getattr(thing, "__module__", None) or "builtins"
    return name if module.split(".")[0] in (_LIBRARY, "builtins") else f"{module}.{name}"


def _code_text(code: types.CodeType) -> str:
    """Return bytecode, names and constants as text, the same in every process."""
    constants = [
        _code_text(one)
        if isinstance(one, types.CodeType)
        else repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one)
        for one in code.co_consts
    ]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, constants))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()[:16]


def _strings(description: object) -> Iterator[str]:
    if isinstance(description, str):
        yield description
    elif isinstance(description, (list, dict)):
        for item in description.values() if isinstance(description, dict) else description:
            yield from _strings(item)


def _is_path(text: str) -> bool:
    return (os.sep in text and os.path.exists(text)) or os.path.isfile(text)


def _count_files(path: str) -> dict[str, Any]:
    counted: dict[str, Any] = {"files": 0, "bytes": 0, "newest": 0.0}
    for name in [path] if os.path.isfile(path) else recursive_walk(path):
        status = os.stat(name)
        counted["files"] += 1
        counted["bytes"] += status.st_size
        counted["newest"] = max(counted["newest"], status.st_mtime)
        if counted["files"] == _MAX_FILES:
            return {**counted, "complete": False}
    return counted
