"""
Serialization of datapoints.

`dumps` and `loads` are for storage and for user code. `loads` detects whether the bytes are pickle, msgpack
or pyarrow's, so it reads the files of every tensorpack. `dumps_once` and `loads_once` are for bytes that
another process reads exactly once.

`$TENSORPACK_SERIALIZE` selects the format that `dumps` writes, and `$TENSORPACK_ONCE_SERIALIZE` that of `dumps_once`:
"pickle" (default) or "msgpack". Both are read at import. Pickle runs code: never call `loads` on bytes from
an untrusted source. `MsgpackSerializer.loads` is safe for such bytes.
"""

from __future__ import annotations

import os
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np
from msgpack import fallback

if TYPE_CHECKING:
    import zmq

__all__ = [
    "MsgpackSerializer", "PickleSerializer", "PyarrowSerializer", "dumps", "dumps_once", "loads",
    "loads_once",
]  # fmt: skip

_PICKLE_PROTOCOL = 4  # the newest one that Python 3.7 reads
_PICKLE_MARK = 0x80
_ARROW_MARK = b"\x10\0\0\0\0\0\x0a\0"  # start of the FlatBuffers table of an Arrow message
_MAX_LENGTH = 16384  # of a list that msgpack's C code reads, see _unpack


class PickleSerializer:
    """Serializer that uses pickle: any Python object, but unsafe for untrusted bytes."""

    @staticmethod
    def dumps(obj: object) -> bytes:
        """Return an object as bytes."""
        return pickle.dumps(obj, protocol=_PICKLE_PROTOCOL)

    @staticmethod
    def loads(buf: bytes | bytearray | memoryview | zmq.Frame) -> Any:
        """Return the object for bytes, a memoryview or a zmq.Frame. This runs code in the bytes."""
        return pickle.loads(_as_view(buf))


class MsgpackSerializer:
    """
    Serializer that uses msgpack and never runs code.

    It accepts numbers, strings, bytes, None, lists, dicts, and NumPy's arrays and scalars. Tuples become
    lists. Arrays are written in the format of the package msgpack-numpy, which tensorpack <= 0.9.8 used.

    Raises:
        TypeError: (in `dumps`) the object contains another type.
        ValueError: (in `loads`) the bytes are damaged, in another format, or contain an array of Python objects.
    """

    @staticmethod
    def dumps(obj: object) -> bytes:
        """Return an object as bytes."""
        return msgpack.packb(obj, use_bin_type=True, strict_types=True, default=_encode)

    @staticmethod
    def loads(buf: bytes | bytearray | memoryview | zmq.Frame) -> Any:
        """Return the object for bytes, a memoryview or a zmq.Frame. Arrays are new and writable."""
        try:
            return _unpack(_as_view(buf))
        except Exception as error:  # damaged bytes make msgpack and NumPy raise anything
            raise ValueError(
                f"MsgpackSerializer.loads: the bytes are damaged or in another format: {type(error).__name__}: {error}. "
                "Read them with the serializer that wrote them, or write them again."
            ) from error


class PyarrowSerializer:
    """
    Reader of the format that tensorpack could write with pyarrow, which pyarrow 12 removed in 2023.

    Raises:
        NotImplementedError: (in `dumps` and `dumps_bytes`) always.
        ImportError: (in `loads`) pyarrow is missing, or newer than 11.
    """

    @staticmethod
    def dumps(obj: object) -> bytes:
        """Raise NotImplementedError."""
        raise NotImplementedError(
            "PyarrowSerializer: pyarrow no longer serializes Python objects. "
            "Unset TENSORPACK_SERIALIZE and TENSORPACK_ONCE_SERIALIZE, or set them to 'pickle' or 'msgpack'."
        )

    dumps_bytes = dumps

    @staticmethod
    def loads(buf: bytes | bytearray | memoryview | zmq.Frame) -> Any:
        """Return the object for bytes, a memoryview or a zmq.Frame. Arrays are not writable. This runs code in the bytes."""
        try:
            from pyarrow import deserialize
        except ImportError as error:
            raise ImportError(
                "PyarrowSerializer.loads: the bytes are in a format that pyarrow 12 removed. Convert the file once, with "
                'Python 3.7 to 3.11 and an older pyarrow: pip install "pyarrow<12" "numpy<2", then '
                "LMDBSerializer.save(LMDBSerializer.load(old_path), new_path)."
            ) from error
        return deserialize(_as_view(buf))


def dumps(obj: object) -> bytes:
    """
    Return an object as bytes, for a file or for user code.

    Args:
        obj: a datapoint, or any object that the selected serializer accepts.

    Example:
        >>> loads(dumps([1, "two", None]))
        [1, 'two', None]
    """
    return _FOR_STORAGE.dumps(obj)


def loads(buf: bytes | bytearray | memoryview | zmq.Frame) -> Any:
    """
    Return the object for the bytes of `dumps`, whichever serializer wrote them.

    Args:
        buf: bytes, bytearray, memoryview or zmq.Frame.

    Note:
        Runs code if the bytes are pickle or pyarrow's, so call it only on bytes that you trust.

    Raises:
        ValueError: the bytes are msgpack and damaged, or in another format.
        ImportError: the bytes are in pyarrow's old format, and pyarrow is missing or newer than 11.
    """
    view = _as_view(buf)
    # pickle begins with 0x80 and its protocol; in msgpack 0x80 alone is an empty dict
    if len(view) > 1 and view[0] == _PICKLE_MARK and 2 <= view[1] <= pickle.HIGHEST_PROTOCOL:
        return PickleSerializer.loads(view)
    # pyarrow's bytes begin with four small numbers in 32 bits and an Arrow message; msgpack's would be one number alone
    has_numbers = len(view) > 4 and view[0] < _PICKLE_MARK and not any(view[1:4])
    is_pyarrow = has_numbers and _ARROW_MARK in bytes(view[:40])
    return (PyarrowSerializer if is_pyarrow else MsgpackSerializer).loads(view)


def dumps_once(obj: object) -> bytes | memoryview:
    """
    Return an object as bytes that one other process of this machine reads once.

    Returns:
        Bytes or a memoryview.
    """
    return _IN_FLIGHT.dumps(obj)


def loads_once(buf: bytes | bytearray | memoryview | zmq.Frame) -> Any:
    """Return the object for the bytes of `dumps_once`."""
    return _IN_FLIGHT.loads(buf)


class _ForkingSerializer(PickleSerializer):
    """Pickle in its newest protocol, with multiprocessing's extensions for queues and connections."""

    @staticmethod
    def dumps(obj: object) -> memoryview:  # type: ignore[override]
        return ForkingPickler.dumps(obj, pickle.HIGHEST_PROTOCOL)


_CONTAINERS: tuple[Any, ...] = (str, bytes, dict, list)
_NUMBERS: tuple[Any, ...] = (int, float)


def _choose(variable: str, default: type) -> Any:
    chosen = os.environ.get(variable, "pickle")
    return {"pickle": default, "pyarrow": PyarrowSerializer}.get(chosen, MsgpackSerializer)


_FOR_STORAGE = _choose("TENSORPACK_SERIALIZE", PickleSerializer)
_IN_FLIGHT = _choose("TENSORPACK_ONCE_SERIALIZE", _ForkingSerializer)


def _as_view(buf: bytes | bytearray | memoryview | zmq.Frame) -> memoryview:
    """Return a memoryview of a bytes-like object or a zmq.Frame."""
    return memoryview(getattr(buf, "buffer", buf))  # type: ignore[arg-type]


def _unpack(view: memoryview) -> Any:
    """
    Read msgpack.

    msgpack's C code allocates a list with the length that the bytes claim, and lists can be nested a thousand
    deep. So the C code only reads short lists. Its slower Python code, which allocates nothing in advance,
    reads the others.
    """
    try:
        return msgpack.unpackb(
            view,
            raw=False,
            strict_map_key=False,
            object_hook=_decode,
            max_array_len=_MAX_LENGTH,
            max_map_len=_MAX_LENGTH,
        )
    except ValueError:
        if len(view) <= _MAX_LENGTH:
            raise
        return fallback.unpackb(view, raw=False, strict_map_key=False, object_hook=_decode)


def _encode(obj: object) -> object:
    """Convert an object to msgpack's types. Called for all other types, including subclasses and tuples."""
    for builtin in _CONTAINERS:  # before NumPy's, because np.str_ is a str
        if isinstance(obj, builtin):
            return builtin(obj)
    if isinstance(obj, tuple):
        return list(obj)
    if isinstance(obj, (np.ndarray, np.generic)):
        return _encode_numpy(obj)
    for builtin in _NUMBERS:  # after NumPy's, because np.float64 is a float
        if isinstance(obj, builtin):
            return builtin(obj)
    if isinstance(obj, complex):
        return {b"complex": True, b"data": repr(obj)}
    raise TypeError(
        "MsgpackSerializer.dumps: cannot serialize an object (expected numbers, strings, bytes, None, lists, dicts and NumPy "
        f"arrays, got {type(obj).__name__} {obj!r:.80}). Use pickle (unset TENSORPACK_SERIALIZE), or convert it to an array."
    )


def _encode_numpy(obj: np.ndarray | np.generic) -> dict[bytes, object]:
    if obj.dtype.hasobject:
        raise TypeError(
            "MsgpackSerializer.dumps: cannot serialize an array of Python objects (expected a numeric dtype, got object). "
            "Convert its dtype, or use a list."
        )
    structured = obj.dtype.names is not None
    header = {b"type": obj.dtype.descr if structured else obj.dtype.str, b"data": obj.tobytes()}
    if not isinstance(obj, np.ndarray):
        return {b"nd": False, **header}
    return {b"nd": True, b"kind": b"V" if structured else b"", b"shape": list(obj.shape), **header}


def _decode(obj: dict[Any, Any]) -> object:
    """Convert the dicts that `_encode` wrote. Other dicts are returned unchanged."""
    if b"nd" in obj and b"type" in obj and b"data" in obj:
        dtype = _decode_dtype(obj[b"type"])
        if not obj[b"nd"]:
            return np.frombuffer(obj[b"data"], dtype=dtype)[0]
        return np.frombuffer(obj[b"data"], dtype=dtype).reshape(obj[b"shape"]).copy()
    if b"complex" in obj and b"data" in obj:
        return complex(obj[b"data"])
    return obj


def _decode_dtype(description: str | list) -> np.dtype[Any]:
    # structured: (name, format) or (name, format, shape), as lists. Python 2 wrote the texts as bytes.
    if isinstance(description, list):
        fields = [
            tuple(tuple(part) if isinstance(part, list) else _text(part) for part in field) for field in description
        ]
        dtype: np.dtype[Any] = np.dtype(fields)
    else:
        dtype = np.dtype(_text(description))
    if dtype.hasobject:
        raise ValueError("MsgpackSerializer.loads: the bytes contain an array of Python objects, which needs pickle.")
    return dtype


def _text(value: Any) -> Any:
    return value.decode("ascii") if isinstance(value, bytes) else value
