"""`pyarrow.serialize` and `pyarrow.deserialize`, by the msgpack of tensorpack_lite."""

from __future__ import annotations

from typing import Any

from tensorpack_lite.utils.serialize import MsgpackSerializer


class _Serialized:
    """A serialized object."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.total_bytes = len(data)

    def to_buffer(self) -> Any:
        """Return the bytes as a buffer of pyarrow."""
        import pyarrow

        return pyarrow.py_buffer(self._data)


def serialize(value: Any, context: Any = None) -> _Serialized:
    """
    Return an object whose `to_buffer()` can be passed to `deserialize`.

    Raises:
        TypeError: the value contains objects other than numbers, text, bytes, lists, dicts and arrays.
    """
    return _Serialized(bytes(MsgpackSerializer.dumps(value)))


def deserialize(obj: Any, base: Any = None) -> Any:
    """
    Return the object that `serialize` was called with.

    Raises:
        ValueError: the bytes were not written by this `serialize`, but by an old pyarrow, for example.
    """
    try:
        return MsgpackSerializer.loads(bytes(memoryview(obj)))
    except ValueError as error:
        raise ValueError(
            "pyarrow.deserialize: the bytes are in a format that pyarrow 12 removed, or damaged. "
            'Convert them once with Python 3.7 to 3.11 and: pip install "pyarrow<12" "numpy<2"'
        ) from error
