"""
Description of objects by JSON values, so that the settings of two training runs can be compared.

Descriptions look at users' objects before the first step, so they are bounded in number, depth, size and time, and call nothing
of these objects: no property, `__len__`, `__getattr__` or `__repr__`.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import time
import types
from argparse import Namespace
from collections import deque
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np

from ...utils.fs import recursive_walk
from ...utils.inspection import (
    class_attribute,
    class_name,
    instance_attributes,
    module_of,
    mro,
    origin,
    parameter_names,
    root_of,
)
from ...utils.plain_values import (
    PLAIN,
    STOPPED,
    describe_array,
    describe_bytes,
    describe_key,
    describe_scalar,
    digest,
    is_short,
)

_MAX_SECONDS = 0.05  # processor time; it is over only if the other limits have failed
_MAX_VALUES = 4000
_MAX_DEPTH = 16
_MAX_ITEMS = 32  # a longer list or dict is described by its length and a digest
_NUM_DIGESTED = {True: 10000, False: 64}  # items, at equal distances, by whether they are short plain values
_NUM_ITERATED = 2000  # items of a container without an index, the first ones
_MAX_CHARS = 2000
_MAX_FILES = 10000
_MAX_SEEN = 1000  # attributes of a pipeline whose length is described
_TEXTUAL = (PurePath, date, np.dtype, range, type(re.compile("")))
_RECORDS = (Namespace, types.SimpleNamespace)
_SEQUENCES = (list, tuple)
_NOT_ENTERED = (".Graph", ".BaseSession")  # of TensorFlow, and what users derive from them
_TENSORFLOW = ("tensorflow", "tensorflow_core")
_PROTOBUF = ("google.protobuf.", "google._upb.")
_LEFT_OUT = ("graph", "trainer", "variables")  # attributes that callbacks have besides their arguments


def describe(value: object) -> Any:
    """
    Describe a value by JSON values, in at most 50 ms of processor time. Equal settings have equal descriptions in every process.

    An object is described by its class, its length, and the attributes that have the names of its constructor's
    arguments; if some of these are missing, by all of its public attributes. A function is described by its name, a
    digest of its code, and the variables that it captures; an array by its dtype, shape and a checksum.

    Modules, classes, arrays in files, and objects of other libraries are described by their names only. Where a limit is
    reached, the description ends with "...".

    Args:
        value: anything. Nothing of a user's class is called.
    """
    return Describer().describe(value)


def describe_files(description: object) -> dict[str, dict[str, Any]]:
    """
    Find the files that a description names, and count those in directories, up to 10,000.

    Args:
        description: the result of `describe`.

    Returns:
        path -> {"files": number, "bytes": total, "newest": the latest time of a change, in seconds since 1970}.
    """
    return {path: _count_files(path) for path in sorted(set(_strings(description))) if _is_path(path)}


class Describer:
    """
    Description of several values within a common time limit. Each value has its own limits of number, depth and size.

    Args:
        seconds: the processor time for all calls together. On a busy machine it lasts longer than on an idle one.
        clock: returns the time in seconds.
    """

    def __init__(self, seconds: float = _MAX_SECONDS, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds_left, self._clock = seconds, clock
        self._deadline = 0.0
        self._left = _MAX_VALUES  # all values inside the present one are counted
        self._open: list[int] = []  # objects that contain the present one

    def describe(self, value: object) -> Any:
        """Describe a value; see the function of the same name."""
        self._left, self._open = _MAX_VALUES, []
        self._deadline = self._clock() + self._seconds_left
        try:
            return self._of(value, 0)
        finally:
            self._seconds_left = self._deadline - self._clock()

    def _is_over(self) -> bool:
        return self._clock() > self._deadline

    def _of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        kind = type(value)  # not `__class__`, which may be a property
        if issubclass(kind, (*PLAIN, Enum, np.generic)):
            return describe_scalar(value, kind)
        if issubclass(kind, type):
            return {"class": class_name(value)}
        if id(value) in self._open:
            return {"type": class_name(kind)}
        if self._left < 0 or depth > _MAX_DEPTH or self._is_over():
            return STOPPED
        self._open.append(id(value))
        try:
            return self._structure(value, kind, depth + 1)
        except Exception as error:  # noqa: BLE001 (e.g. another thread changes a dict; a description must not end training)
            return {"type": class_name(kind), "error": f"{type(error).__name__}: {error}"[:_MAX_CHARS]}
        finally:
            self._open.pop()

    def _structure(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, np.ndarray):
            return describe_array(value)
        if issubclass(kind, (bytes, bytearray)):
            return describe_bytes(value)
        if issubclass(kind, types.ModuleType):
            return {"module": str(instance_attributes(value).get("__name__"))}
        if issubclass(kind, slice):
            return {"slice": [self._of(part, depth) for part in (value.start, value.stop, value.step)]}
        if issubclass(kind, dict):
            return self._mapping(value, depth)
        if issubclass(kind, (*_SEQUENCES, set, frozenset, deque)):
            return self._items(value, kind, depth)
        if issubclass(kind, functools.partial) or kind in (
            types.FunctionType,
            types.MethodType,
            types.BuiltinFunctionType,
        ):
            return self._function(value, kind, depth)
        return self._object(value, kind, depth)

    # Containers: the methods of the built-in classes, because a subclass may have others -----------------------------
    def _mapping(self, value: Any, depth: int) -> Any:
        items = list(itertools.islice(dict.items(value), _NUM_ITERATED))
        if len(items) > _MAX_ITEMS:
            if all(is_short(key) for key, _ in items):
                items.sort(key=lambda item: repr(item[0]))
            return self._digest_of(dict.__len__(value), items, depth)
        named = {describe_key(key, number): item for number, (key, item) in enumerate(items)}
        return {name: self._of(item, depth) for name, item in named.items()}

    def _items(self, value: Any, kind: type, depth: int) -> Any:
        base: Any = next(known for known in (*_SEQUENCES, set, frozenset, deque) if issubclass(kind, known))
        length = base.__len__(value)
        if base in _SEQUENCES:
            items = base.__getitem__(value, slice(None, None, max(1, -(-length // _NUM_DIGESTED[True]))))
        else:
            items = list(itertools.islice(base.__iter__(value), _NUM_ITERATED))
        if length <= _MAX_ITEMS:
            described = [self._of(item, depth) for item in items]
            return sorted(described, key=json.dumps) if base in (set, frozenset) else described
        if base in (set, frozenset):  # without an order, unless all items have one
            if length > len(items) or not all(map(is_short, items)):
                return {"length": length, "digest": STOPPED}
            items.sort(key=repr)
        return self._digest_of(length, items, depth)

    def _digest_of(self, length: int, items: Sequence[Any], depth: int) -> dict[str, Any]:
        if all(map(is_short, items)):
            return {"length": length, "digest": digest(repr(list(items)))}
        step = max(1, -(-len(items) // _NUM_DIGESTED[False]))
        content = json.dumps([self._of(item, depth) for item in items[::step]])
        return {"length": length, "digest": STOPPED if self._is_over() else digest(content)}

    # Functions and objects -------------------------------------------------------------------------------------------
    def _function(self, value: Any, kind: type, depth: int) -> dict[str, Any]:
        if issubclass(kind, functools.partial):
            parts = (vars(functools.partial)[name].__get__(value) for name in ("func", "args", "keywords"))
            func, args, keywords = parts
            arguments = self._of({"args": args, **keywords}, depth)
            return {"partial": self._of(func, depth), "arguments": arguments}
        function = value.__func__ if kind is types.MethodType else value
        described: dict[str, Any] = {"function": _function_name(function)}
        if type(function) is types.FunctionType and origin(function.__module__) != "other":
            code = function.__code__
            described["code"] = digest(_code_text(code))
            cells = zip(code.co_freevars, function.__closure__ or ())
            described["captured"] = {name: self._of(_content_of(cell), depth) for name, cell in cells}
        if kind is types.MethodType:
            described["of"] = self._of(value.__self__, depth)
        return described

    def _object(self, value: Any, kind: type, depth: int) -> Any:
        described: dict[str, Any] = {"type": class_name(kind)}
        bases = mro(kind)
        if any(module_of(base).startswith(_PROTOBUF) for base in bases):
            return self._message(value, kind, depth)
        by_whom = origin(module_of(kind))
        if by_whom == "other" and issubclass(kind, _TEXTUAL):
            return str(value)[:_MAX_CHARS]
        if by_whom == "other" and root_of(kind) in _TENSORFLOW:
            name = getattr(value, "name", None)
            return {**described, "name": name} if type(name) is str else described
        if not issubclass(kind, _RECORDS) and not _is_entered(bases):
            return described
        arguments = {name: self._of(item, depth) for name, item in _arguments(value, kind).items()}
        if arguments:
            described["arguments"] = arguments
        if class_attribute(kind, "__len__") is not None and _length_is_ours(value):
            try:
                described["length"] = len(value)
            except NotImplementedError:  # a DataFlow of unknown length
                described["length"] = None
        return described

    def _message(self, value: Any, kind: type, depth: int) -> Any:
        """Describe a message of protobuf, or a container in it."""
        if class_attribute(kind, "ListFields") is not None:
            fields = {field.name: self._of(item, depth) for field, item in value.ListFields()}
            return {"type": class_name(kind), "arguments": fields}
        items = list(itertools.islice(value, _MAX_ITEMS + 1))  # the keys of a map
        if class_attribute(kind, "keys") is not None:
            described: Any = {str(key): self._of(value[key], depth) for key in sorted(items[:_MAX_ITEMS])}
            return {**described, STOPPED: STOPPED} if len(items) > _MAX_ITEMS else described
        described = [self._of(item, depth) for item in items[:_MAX_ITEMS]]
        return [*described, STOPPED] if len(items) > _MAX_ITEMS else described


# Functions and classes -----------------------------------------------------------------------------------------------
def _is_entered(bases: Iterable[type]) -> bool:
    """Return whether an object with these classes is described by its attributes: it is the library's or the user's."""
    if any(root_of(base) in _TENSORFLOW and class_name(base).endswith(_NOT_ENTERED) for base in bases):
        return False
    return any(origin(module_of(base)) != "other" for base in bases)


def _arguments(value: object, kind: type) -> dict[str, Any]:
    """Return the attributes of an object that hold arguments of its constructor, or all that are public."""
    attributes = instance_attributes(value)
    parameters = parameter_names(kind)
    found = {}
    for name in parameters:
        exact = [key for key in (name, f"_{name}") if key in attributes]
        similar = [key for key in attributes if key.lstrip("_").startswith(f"{name}_")]
        stored = next(iter(exact + similar), None)
        if stored is not None:
            found[name] = attributes[stored]
    if len(found) < len(parameters) or not parameters:
        public = {name: item for name, item in attributes.items() if not name.startswith("_")}
        found.update({name: public[name] for name in public if name not in _LEFT_OUT})
    return found


def _length_is_ours(value: object) -> bool:
    """Return whether `len` of an object calls only methods of this library and built-in ones, as far as its attributes show."""
    waiting, seen = [value], {id(value)}
    while waiting and len(seen) <= _MAX_SEEN:
        item = waiting.pop()
        kind = type(item)
        method = class_attribute(kind, "__len__")
        if kind in _SEQUENCES:
            inner = list(item) if len(item) <= _MAX_ITEMS else []  # type: ignore[call-overload, arg-type]
        elif type(method) is not types.FunctionType:
            inner = []
        elif origin(method.__module__) == "library":
            inner = list(instance_attributes(item).values())
        else:
            return False
        waiting += [part for part in inner if id(part) not in seen]
        seen.update(map(id, inner))
    return not waiting


def _function_name(function: Any) -> str:
    """Return the name of a function, with its module unless it is built-in or of this library."""
    name = getattr(function, "__qualname__", type(function).__name__)
    module = getattr(function, "__module__", None)
    is_ours = origin(module or "builtins") == "library" or module in (None, "builtins")
    return name if is_ours else f"{module}.{name}"


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return STOPPED


def _code_text(code: types.CodeType) -> str:
    """Return bytecode, names and constants as text, the same in every process."""
    constants = [
        _code_text(constant)
        if isinstance(constant, types.CodeType)
        else repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)[:_MAX_CHARS]
        for constant in code.co_consts
    ]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, constants))


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
