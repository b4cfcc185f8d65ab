"""
What goes over the network between `send_dataflow_zmq` and `RemoteDataZMQ`, byte by byte.

In:  a datapoint, or what went wrong.
Out: the frames of one message; and back.

The first frame is ``TPL``, one byte of version, one letter of kind, and msgpack::

    TPL 1 D  [sender, datapoint]                          large arrays and bytes: a frame each, referred to by number
    TPL 1 P  [sender]                                     the second frame is the datapoint, pickled
    TPL 1 E  [sender, stage, type, text, traceback]       the DataFlow has failed

Reading D and E never runs code, and takes memory in proportion to the bytes that came. P is refused unless asked for.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Any, NamedTuple

import msgpack
import numpy as np
from msgpack import fallback

from ...utils.serialize import PickleSerializer
from ..failure import error_text

__all__ = [
    "VERSION",
    "Message",
    "VersionError",
    "WireError",
    "decode",
    "encode_datapoint",
    "encode_error",
    "encode_pickle",
]

VERSION = 1  # of this format; both sides must have the same

_MAGIC = b"TPL"
_ARRAY, _SCALAR, _COMPLEX, _BYTES = 1, 2, 3, 4  # numbers of msgpack's extension types
_OUT_OF_BAND = 4096  # bytes; what is larger gets a frame of its own
_MAX_EXTENSION = 16384  # bytes; an extension holds the description of an array, or a small one
_MAX_AT_ONCE = 16384  # bytes; see _unpack
_MAX_FIRST_FRAME = 1 << 22  # bytes; arrays are not in there
_MAX_TEXT = 20000  # characters of an error
_TEXTS: tuple[Any, ...] = (str, bytes, dict)
_NUMBERS: tuple[Any, ...] = (int, float)
_DTYPE = re.compile(r"[<>|=]?[?biufcmMSUV]\d*(\[\d*[a-zA-Z]+\])?")
_ADVICE = (
    "Send numbers, strings, bytes, None, lists, dicts and NumPy arrays, or use format='pickle' on both sides."
)


class WireError(ValueError):
    """The frames are not a message of this format."""


class VersionError(WireError):
    """The message is of another version of this format."""


class Message(NamedTuple):
    """
    One message, read.

    Attributes:
        kind: "D", "P" or "E".
        sender: who it says it is, "host, pid 4711".
        content: the datapoint; of an error [stage, type, text, traceback], all str.
    """

    kind: str
    sender: str
    content: Any


def encode_datapoint(sender: str, datapoint: Any) -> list[Any]:
    """
    Make the frames of a datapoint.

    Args:
        sender: who sends it.
        datapoint: of numbers, strings, bytes, None, lists, dicts, arrays. Tuples arrive as lists.

    Returns:
        Frames: bytes and memoryviews. The latter look into the arrays, and are not copies.

    Raises:
        TypeError: there is something else in it.
        ValueError: too much of it is neither an array nor bytes.
    """
    if not isinstance(datapoint, (list, tuple, dict)):
        raise TypeError(f"a datapoint is {type(datapoint).__name__}, wanted a list or a dict of components")
    frames: list[Any] = [b""]
    head = [sender, _with_bytes_apart(datapoint, frames)]
    try:
        body = msgpack.packb(head, use_bin_type=True, strict_types=True, default=partial(_encode, frames))
    except (OverflowError, RecursionError) as error:
        raise TypeError(f"the datapoint cannot be sent: {error}. {_ADVICE}") from error
    if len(body) > _MAX_FIRST_FRAME:
        raise ValueError(
            f"a datapoint has {len(body)} bytes outside of arrays, wanted {_MAX_FIRST_FRAME} at most. "
            "Make arrays of its long lists."
        )
    frames[0] = _start("D") + body
    return frames


def encode_pickle(sender: str, datapoint: Any) -> list[Any]:
    """Make the frames of a datapoint that is pickled."""
    return [_start("P") + msgpack.packb([sender]), PickleSerializer.dumps(datapoint)]


def encode_error(sender: str, stage: str, error: BaseException, trace: str) -> list[Any]:
    """Make the frames that tell of an error: only text, so that it can be read whatever it is."""
    texts = [sender, stage, type(error).__name__, error_text(error), trace]
    short = [text[-_MAX_TEXT:].encode("utf-8", "replace").decode("utf-8") for text in texts]
    return [_start("E") + msgpack.packb(short)]


def decode(frames: list[Any], allow_pickle: bool = False) -> Message:
    """
    Read a message.

    Args:
        frames: of one message, each with a buffer: bytes, memoryviews or the buffers of `zmq.Frame`s.
        allow_pickle: read a pickled datapoint, which runs code.

    Returns:
        The message. Its large arrays look into the frames, and can be written to if those can.
        The content of a pickled datapoint is None where pickle is not allowed.

    Raises:
        VersionError: another version.
        WireError: anything else that is wrong.
    """
    head = memoryview(frames[0]).cast("B")
    if len(head) < 5 or head[:3] != _MAGIC:
        raise WireError(f"{len(head)} bytes that do not begin as a message does")
    if head[3] != VERSION:
        raise VersionError(f"a message of version {head[3]}, wanted {VERSION}")
    kind = chr(head[4])
    if len(head) > _MAX_FIRST_FRAME + 5:
        raise WireError(f"a first frame of {len(head)} bytes")
    try:
        if kind == "D":
            return _decode_datapoint(head[5:], frames)
        if kind == "E":
            return _decode_error(head[5:], frames)
        if kind == "P":
            return _decode_pickle(head[5:], frames, allow_pickle)
    except Exception as error:  # hostile bytes make msgpack, NumPy and pickle raise anything
        raise WireError(f"a damaged message: {type(error).__name__}: {error}") from error
    raise WireError(f"a message of unknown kind {kind!r}")


def _start(kind: str) -> bytes:
    return _MAGIC + bytes([VERSION]) + kind.encode("ascii")


def _with_bytes_apart(datapoint: Any, frames: list[Any]) -> Any:
    """Give large bytes (compressed images, mostly) a frame; msgpack would never ask about them."""

    def apart(component: Any) -> Any:
        if type(component) is not bytes or len(component) < _OUT_OF_BAND:
            return component
        frames.append(component)
        return msgpack.ExtType(_BYTES, msgpack.packb(len(frames) - 1))

    if type(datapoint) in (list, tuple):
        return [apart(component) for component in datapoint]
    if type(datapoint) is dict:
        return {key: apart(component) for key, component in datapoint.items()}
    return datapoint


def _encode(frames: list[Any], obj: Any) -> Any:
    """Write in msgpack's types what is not one of them; subclasses and tuples also come here."""
    if isinstance(obj, np.ndarray):
        return _encode_array(frames, np.asarray(obj))
    for base in _TEXTS:  # before NumPy's scalars, because np.str_ is a str
        if isinstance(obj, base):
            return base(obj)
    if isinstance(obj, (list, tuple)):
        return list(obj)
    if isinstance(obj, np.generic):
        return msgpack.ExtType(_SCALAR, _packed(_dtype_code(obj.dtype), obj.tobytes()))
    for base in _NUMBERS:  # after them, because np.float64 is a float
        if isinstance(obj, base):
            return base(obj)
    if isinstance(obj, complex):
        return msgpack.ExtType(_COMPLEX, struct.pack("<dd", obj.real, obj.imag))
    raise TypeError(f"a datapoint holds {type(obj).__name__} {obj!r:.80}. {_ADVICE}")


def _encode_array(frames: list[Any], array: np.ndarray) -> msgpack.ExtType:
    code, shape = _dtype_code(array.dtype), list(array.shape)
    if array.nbytes < _OUT_OF_BAND:
        return msgpack.ExtType(_ARRAY, _packed(code, shape, array.tobytes()))
    flat = np.ascontiguousarray(array).reshape(-1)
    frames.append(flat.view(np.uint8).data)  # of plain bytes: dates have no buffer of their own
    return msgpack.ExtType(_ARRAY, _packed(code, shape, len(frames) - 1))


def _packed(*parts: Any) -> bytes:
    packed: bytes = msgpack.packb(parts, use_bin_type=True)
    if len(packed) > _MAX_EXTENSION:
        raise TypeError(
            f"a datapoint holds a NumPy value that takes {len(packed)} bytes to describe. {_ADVICE}"
        )
    return packed


def _dtype_code(dtype: np.dtype[Any]) -> Any:
    if dtype.hasobject:
        raise TypeError(f"a datapoint holds a NumPy array of Python objects (dtype object). {_ADVICE}")
    return dtype.str if dtype.names is None else dtype.descr


def _dtype(code: Any) -> np.dtype[Any]:
    """Make a dtype of a format that is harmless, or of a list of fields: [name, format] or [name, format, shape]."""
    if isinstance(code, str) and _DTYPE.fullmatch(code):
        return np.dtype(code)
    if not isinstance(code, list) or not code:
        raise WireError(f"a dtype of {code!r:.80}")
    fields = []
    for name, format, *shape in code:
        name = tuple(name) if isinstance(name, list) else name
        fields.append((name, _dtype(format), *(tuple(int(n) for n in part) for part in shape)))
    return np.dtype(fields)


def _unpack(body: memoryview, frames: list[Any], used: set[int]) -> Any:
    """
    Read the msgpack of a first frame.

    msgpack's C code makes a list as long as it is said to be, before its elements have come; nested a thousand deep that
    is a thousand times the memory. So only short frames are given to it, which the limits on lengths (none above the
    length of the frame) make harmless, and longer ones to msgpack's Python code, which makes what has really come.
    """
    unpack = msgpack.unpackb if len(body) <= _MAX_AT_ONCE else fallback.unpackb
    return unpack(body, raw=False, strict_map_key=False, ext_hook=partial(_decode_extension, frames, used))


def _decode_datapoint(body: memoryview, frames: list[Any]) -> Message:
    used: set[int] = set()
    sender, datapoint = _unpack(body, frames, used)
    if used != set(range(1, len(frames))):
        raise WireError(f"{len(frames)} frames, of which {len(used) + 1} are used")
    if not isinstance(datapoint, (list, dict)):
        raise WireError(f"a datapoint that is {type(datapoint).__name__}")
    return Message("D", _clean(sender), datapoint)


def _decode_error(body: memoryview, frames: list[Any]) -> Message:
    sender, *texts = _unpack(body, [], set())
    if len(frames) != 1 or len(texts) != 4:
        raise WireError(f"an error with {len(texts)} texts in {len(frames)} frames")
    return Message("E", _clean(sender), [_clean(text) for text in texts])


def _decode_pickle(body: memoryview, frames: list[Any], allow_pickle: bool) -> Message:
    (sender,) = _unpack(body, [], set())
    if len(frames) != 2:
        raise WireError(f"a pickled datapoint in {len(frames)} frames")
    return Message("P", _clean(sender), PickleSerializer.loads(frames[1]) if allow_pickle else None)


def _decode_extension(frames: list[Any], used: set[int], code: int, data: bytes) -> Any:
    if len(data) > _MAX_EXTENSION:
        raise WireError(f"an extension of {len(data)} bytes")
    if code == _COMPLEX:
        return complex(*struct.unpack("<dd", data))
    parts = msgpack.unpackb(data, raw=False)
    if code == _BYTES:
        return bytes(_frame(frames, used, parts))
    if code == _SCALAR:
        return np.frombuffer(parts[1], dtype=_dtype(parts[0]), count=1)[0]
    if code == _ARRAY:
        return _decode_array(frames, used, *parts)
    raise WireError(f"an extension of unknown type {code}")


def _decode_array(frames: list[Any], used: set[int], code: Any, shape: Any, content: Any) -> np.ndarray:
    outside = isinstance(content, int)
    buffer = _frame(frames, used, content) if outside else content
    array = np.frombuffer(buffer, dtype=_dtype(code)).reshape([_length(n) for n in shape])
    if outside and array.flags.writeable and array.flags.aligned:
        return array
    return array.copy()


def _frame(frames: list[Any], used: set[int], number: Any) -> Any:
    """Give the frame that is referred to; each only once."""
    if not isinstance(number, int) or not 1 <= number < len(frames) or number in used:
        raise WireError(f"a reference to frame {number!r:.20} of {len(frames)}")
    used.add(number)
    return frames[number]


def _length(number: Any) -> int:
    if not isinstance(number, int) or number < 0:  # NumPy takes -1 as "whatever fits"
        raise WireError(f"a length of {number!r:.20}")
    return number


def _clean(text: Any) -> str:
    """Text of a stranger, without what would move the cursor of a terminal."""
    if not isinstance(text, str):
        raise WireError(f"a {type(text).__name__} where a text was wanted")
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text[-_MAX_TEXT:])
