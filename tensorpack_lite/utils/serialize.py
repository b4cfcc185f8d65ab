"""
Datapoints as bytes.

`dumps` and `loads` are for storage and for user code: `loads` recognises by itself whether the bytes are pickle or
msgpack, so files of every tensorpack can be read. `dumps_once` and `loads_once` are for bytes on their way to another
process, which are read exactly once.

`$TENSORPACK_SERIALIZE` and `$TENSORPACK_ONCE_SERIALIZE`, read at import, choose how the two write: "pickle" (default)
or "msgpack". Pickle runs code: never `loads` what strangers sent. `MsgpackSerializer.loads` is safe for that.
"""

from __future__ import annotations

import os
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import msgpack
import numpy as np
from msgpack import fallback

__all__ = [
    "MsgpackSerializer",
    "PickleSerializer",
    "PyarrowSerializer",
    "dumps",
    "dumps_once",
    "loads",
    "loads_once",
]

_PICKLE_PROTOCOL = 4  # what Python 3.7 reads, so that a file of one Python can be read by the others
_PICKLE_MARK = 0x80
_MAX_LENGTH = 16384  # of a list that msgpack's C code reads; see _unpack


class PickleSerializer:
    """
    Bytes by pickle: any Python object, and no safety against strangers.

    tensorpack: same; there protocol 5 on new Pythons, which Python 3.7 cannot read.
    """

    @staticmethod
    def dumps(obj: object) -> bytes:
        """Turn an object into bytes."""
        return pickle.dumps(obj, protocol=_PICKLE_PROTOCOL)

    @staticmethod
    def loads(buf: Any) -> Any:
        """Turn bytes (or a memoryview, or a zmq.Frame) into an object. Runs code."""
        return pickle.loads(_as_view(buf))


class MsgpackSerializer:
    """
    Bytes by msgpack: numbers, strings, bytes, None, lists, dicts, NumPy's arrays and scalars. Never runs code.

    Arrays are written as the package msgpack-numpy does, which tensorpack <= 0.9.8 used. Tuples come back as lists.

    Raises:
        TypeError: (by `dumps`) the object has something else inside.
        ValueError: (by `loads`) the bytes are not what `dumps` writes: damaged, another format, arrays of Python objects.

    tensorpack: same; there msgpack-numpy changes msgpack for the whole process.
    """

    @staticmethod
    def dumps(obj: object) -> bytes:
        """Turn an object into bytes."""
        packed: bytes = msgpack.packb(obj, use_bin_type=True, strict_types=True, default=_encode)
        return packed

    @staticmethod
    def loads(buf: Any) -> Any:
        """Turn bytes (or a memoryview, or a zmq.Frame) into an object; arrays are new and can be written to."""
        try:
            return _unpack(_as_view(buf))
        except Exception as error:  # damaged bytes make msgpack and NumPy raise anything
            raise ValueError(
                f"MsgpackSerializer: the bytes are not what dumps() writes: {type(error).__name__}: {error}. "
                "Write them again, or read them with the serializer that wrote them."
            ) from error


class PyarrowSerializer:
    """
    Kept for its name: pyarrow no longer serialises Python objects.

    Raises:
        NotImplementedError: always.

    tensorpack: works there with pyarrow < 2.
    """

    @staticmethod
    def dumps(obj: object) -> bytes:
        """Raise."""
        raise NotImplementedError(_NO_PYARROW)

    @staticmethod
    def loads(buf: Any) -> Any:
        """Raise."""
        raise NotImplementedError(_NO_PYARROW)


def dumps(obj: object) -> bytes:
    """
    Turn an object into bytes, for a file or for user code.

    Args:
        obj: a datapoint, or anything the chosen serializer takes.

    Example:
        >>> loads(dumps([1, "two", None]))
        [1, 'two', None]

    tensorpack: same.
    """
    return _FOR_STORAGE.dumps(obj)


def loads(buf: Any) -> Any:
    """
    Turn the bytes of `dumps` into the object, whichever serializer wrote them.

    Args:
        buf: bytes, bytearray, memoryview or zmq.Frame.

    Note:
        Runs code when the bytes are pickle: only for bytes of your own.

    tensorpack: same; there only what the serializer of this process wrote can be read.
    """
    view = _as_view(buf)
    return (PickleSerializer if _is_pickle(view) else MsgpackSerializer).loads(view)


def dumps_once(obj: object) -> Any:
    """
    Turn an object into bytes that one other process of this machine will read, once.

    Returns:
        bytes or a memoryview.

    tensorpack: same.
    """
    return _IN_FLIGHT.dumps(obj)


def loads_once(buf: Any) -> Any:
    """
    Turn the bytes of `dumps_once` into the object.

    tensorpack: same.
    """
    return _IN_FLIGHT.loads(buf)


class _ForkingSerializer(PickleSerializer):
    """Pickle with multiprocessing's extensions (queues, connections), at its newest."""

    @staticmethod
    def dumps(obj: object) -> Any:
        return ForkingPickler.dumps(obj, pickle.HIGHEST_PROTOCOL)


_NO_PYARROW = (
    "PyarrowSerializer: pyarrow no longer serialises Python objects. "
    "Unset TENSORPACK_SERIALIZE and TENSORPACK_ONCE_SERIALIZE, or set them to 'pickle' or 'msgpack'."
)


_CONTAINERS: tuple[Any, ...] = (str, bytes, dict, list)
_NUMBERS: tuple[Any, ...] = (int, float)


def _choose(variable: str, default: Any) -> Any:
    chosen = os.environ.get(variable, "pickle")
    return {"pickle": default, "pyarrow": PyarrowSerializer}.get(chosen, MsgpackSerializer)


_FOR_STORAGE = _choose("TENSORPACK_SERIALIZE", PickleSerializer)
_IN_FLIGHT = _choose("TENSORPACK_ONCE_SERIALIZE", _ForkingSerializer)


def _as_view(buf: Any) -> memoryview:
    """See bytes-like objects, and zmq.Frame, as one thing."""
    return memoryview(getattr(buf, "buffer", buf))


def _is_pickle(view: memoryview) -> bool:
    """Pickle begins with 0x80 and its protocol; in msgpack 0x80 alone is an empty dict."""
    return len(view) > 1 and view[0] == _PICKLE_MARK and 2 <= view[1] <= pickle.HIGHEST_PROTOCOL


def _unpack(view: memoryview) -> Any:
    """
    Read msgpack.

    msgpack's C code makes a list as long as it is said to be, before its elements have come, and lists can be nested a thousand
    deep. So it only gets short lists; its slower Python code, which makes what has really come, reads the others.
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


def _encode(obj: Any) -> Any:
    """Write in msgpack's types what is not one of them (subclasses and tuples also come here)."""
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
        f"MsgpackSerializer: takes numbers, strings, bytes, None, lists, dicts and NumPy arrays, "
        f"got {type(obj).__name__} {obj!r:.80}. Use pickle (unset TENSORPACK_SERIALIZE), or turn it into an array."
    )


def _encode_numpy(obj: Any) -> dict[bytes, Any]:
    if obj.dtype.hasobject:
        raise TypeError(
            "MsgpackSerializer: got a NumPy array of Python objects (dtype object). "
            "Give it a numeric dtype, or send a list."
        )
    structured = obj.dtype.names is not None
    header = {b"type": obj.dtype.descr if structured else obj.dtype.str, b"data": obj.tobytes()}
    if not isinstance(obj, np.ndarray):
        return {b"nd": False, **header}
    return {b"nd": True, b"kind": b"V" if structured else b"", b"shape": list(obj.shape), **header}


def _decode(obj: dict[Any, Any]) -> Any:
    """Read back what `_encode` wrote; other dicts stay as they are."""
    if b"nd" in obj and b"type" in obj and b"data" in obj:
        dtype = _decode_dtype(obj[b"type"])
        if not obj[b"nd"]:
            return np.frombuffer(obj[b"data"], dtype=dtype)[0]
        return np.frombuffer(obj[b"data"], dtype=dtype).reshape(obj[b"shape"]).copy()
    if b"complex" in obj and b"data" in obj:
        return complex(obj[b"data"])
    return obj


def _decode_dtype(description: Any) -> np.dtype[Any]:
    # structured: (name, format) or (name, format, shape), lists after the journey
    if isinstance(description, list):
        fields = [
            tuple(tuple(part) if isinstance(part, list) else part for part in field) for field in description
        ]
        dtype: np.dtype[Any] = np.dtype(fields)
    else:
        dtype = np.dtype(description)
    if dtype.hasobject:
        raise ValueError(
            "MsgpackSerializer: the bytes hold an array of Python objects, which would need pickle."
        )
    return dtype
