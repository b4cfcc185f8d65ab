"""
The bytes of a `.state` file: the state of a training other than its variables, packed without pickle.

They are a ZIP archive, whose checksums are verified when it is read. The member `state.json` holds the format
number, the version of the library that wrote it, and the state, as JSON. Each NumPy array in the state is a
member `<number>.npy`, and `{"$array": <number>}` stands for it in the JSON. Equal states give equal bytes.
Reading them never executes code.

Format 1, which was written until version 0.1.0, had no arrays.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any, Dict, List, NamedTuple

import numpy as np

from .._version import __version__
from .errors import DamagedFileError, parsing
from .npz import read_npy_header

MAX_STATE_BYTES = 64 << 20
_FORMAT = 2
_MEMBER = "state.json"
_ARRAY = "$array"
_DATE = (1980, 1, 1, 0, 0, 0)  # a constant, so that equal states give equal bytes
_WHAT = "the state of a checkpoint"
_ADVICE = "Remove it to continue with the variables of the checkpoint and the epoch in stats.json."


class StateFile(NamedTuple):
    """
    The content of a state file.

    Attributes:
        format: the number of its format.
        version: the version of the library that wrote it.
        num_bytes: the size of the file.
        state: the state.
    """

    format: int
    version: str
    num_bytes: int
    state: Dict[str, Any]


class StateTooLargeError(ValueError):
    """Error of `pack_state`: the state is larger than 64 MB."""


def pack_state(state: dict[str, object], name: str) -> bytes:
    """
    Convert a state to the content of a state file. Later changes of the state do not change the result.

    Args:
        state: None, booleans, numbers, strings and NumPy arrays, in lists and in dicts whose keys are strings.
        name: the file or its checkpoint, for error messages.

    Raises:
        TypeError: the state holds another type, or an array of Python objects.
        StateTooLargeError: the state is larger than 64 MB.
        ValueError: a dict has the key "$array".
    """
    arrays: List[bytes] = []
    record = {"format": _FORMAT, "version": __version__, "state": _pack(state, arrays, name)}
    try:
        text = json.dumps(record).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"write_state: the state for '{name}' cannot be written as JSON: {error}. Return only None, booleans, numbers, "
            "strings, arrays, lists and dicts from state_dict()."
        ) from error
    num_bytes = len(text) + sum(map(len, arrays))
    if num_bytes > MAX_STATE_BYTES:
        raise StateTooLargeError(
            f"write_state: the state for '{name}' has {num_bytes} bytes (expected at most {MAX_STATE_BYTES}). "
            "Return less from state_dict()."
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for member, data in [(_MEMBER, text), *((f"{i}.npy", a) for i, a in enumerate(arrays))]:
            archive.writestr(zipfile.ZipInfo(member, _DATE), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def unpack_state(content: bytes, path: str) -> StateFile:
    """
    Return the content of a state file, of this or an earlier format.

    Args:
        content: the bytes of the file.
        path: the file, for error messages.

    Raises:
        DamagedFileError: the file is damaged.
        ValueError: a newer version of the library wrote the file.
    """
    with parsing(path, _WHAT, _ADVICE):
        if len(content) > MAX_STATE_BYTES:
            raise ValueError(f"it is larger than {MAX_STATE_BYTES} bytes")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacker = _Unpacker(archive)
            record = json.loads(unpacker.read(_MEMBER).decode("utf-8"))
            if not isinstance(record, dict) or type(record.get("format")) is not int:
                raise ValueError("it has no format number")
            state = record.get("state")
            if record["format"] == _FORMAT:
                state = unpacker.unpack(state)
    if record["format"] > _FORMAT:
        raise ValueError(
            f"'{path}' has format {record['format']} (expected at most {_FORMAT}). Version {record.get('version')} of "
            f"tensorpack_lite wrote it and this is {__version__}. Install that version or a newer one."
        )
    if not isinstance(state, dict):
        raise DamagedFileError(f"{path} cannot be read as {_WHAT}: it has no state. {_ADVICE}")
    return StateFile(record["format"], str(record.get("version")), len(content), state)


def _pack(value: object, arrays: List[bytes], name: str) -> object:
    """Replace the arrays in a state by references, and append their contents, in npy format, to `arrays`."""
    if isinstance(value, dict):
        if _ARRAY in value:
            raise ValueError(
                f"write_state: the state for '{name}' has a dict with the key '{_ARRAY}', which is reserved. "
                "Use another key in state_dict()."
            )
        return {key: _pack(item, arrays, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(item, arrays, name) for item in value]
    if type(value) is not np.ndarray:  # json reports other types, such as masked arrays
        return value
    dtype: np.dtype[Any] = value.dtype
    if dtype.hasobject:
        raise TypeError(
            f"write_state: the state for '{name}' has an array of Python objects (dtype {dtype}), which only pickle "
            "could write. Return arrays of numbers, or lists, from state_dict()."
        )
    if np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype)) != dtype:
        raise TypeError(
            f"write_state: the state for '{name}' has an array of dtype {dtype}, which is not a built-in NumPy dtype. "
            "Convert it in state_dict(), for example to float32."
        )
    file = io.BytesIO()
    np.lib.format.write_array(file, np.array(value, order="C"), allow_pickle=False)
    arrays.append(file.getvalue())
    return {_ARRAY: len(arrays) - 1}


class _Unpacker:
    """Reader of the members of an archive, up to 64 MB in all, because the sizes that an archive states may be wrong."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._num_bytes_left = MAX_STATE_BYTES

    def read(self, name: str) -> bytes:
        with self._archive.open(name) as member:
            content = member.read(self._num_bytes_left + 1)
        if len(content) > self._num_bytes_left:
            raise ValueError(f"it is larger than {MAX_STATE_BYTES} bytes when it is unpacked")
        self._num_bytes_left -= len(content)
        return content

    def unpack(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _ARRAY in value:
            return _parse_array(self.read(f"{value[_ARRAY]}.npy"))
        return {key: self.unpack(item) for key, item in value.items()}


def _parse_array(content: bytes) -> np.ndarray:
    file = io.BytesIO(content)
    shape, _, dtype = read_npy_header(file)
    num_bytes = dtype.itemsize
    for size in shape:
        num_bytes *= size
    if len(content) - file.tell() != num_bytes:
        raise ValueError("the size of an array is not the one in its header")
    file.seek(0)
    array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array
