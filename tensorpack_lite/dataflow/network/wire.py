"""
The message format of `send_dataflow_zmq` and `RemoteDataZMQ`.

In:  a datapoint or an error.
Out: the frames of a message, and back.

The first frame is ``TPL``, one byte of version, one letter of kind, and msgpack::

    TPL 2 H  [sender]                                     greeting of a sender, before its first datapoint
    TPL 2 D  [sender, datapoint]                          large arrays and bytes refer to separate frames
    TPL 2 P  [sender, first, count]                       the datapoint is pickled, in the frames that follow
    TPL 2 E  [sender, stage, type, text, traceback]       the DataFlow has failed

Decoding H, D and E never runs code. The memory and time that it takes are bounded for any bytes: no frame is
larger than 1 MB, so a receiver needs little memory for an unknown peer, and the number of values in the first
frame is limited. P is refused unless the receiver asks for it.
"""

from __future__ import annotations

import re
import struct
from functools import partial
from typing import Any, Callable, Iterable, NamedTuple, Union

import msgpack
import numpy as np

from ...utils.errors import error_text
from ...utils.serialize import PickleSerializer
from ..base import Datapoint

Frame = Union[bytes, memoryview]

VERSION = 2  # version of this format; both ends need the same
MAX_FRAME_BYTES = 1 << 20
MAX_VALUES = 16384  # arrays and NumPy scalars in a datapoint, and values in one of its lists

_MAGIC = b"TPL"
_ARRAY, _SCALAR, _COMPLEX, _BYTES = 1, 2, 3, 4  # numbers of msgpack's extension types
_OUT_OF_BAND = 4096  # bytes; larger values get separate frames
_MAX_EXTENSION = 16384  # bytes; an extension holds the description of an array, or a small array
_MAX_KEYS = 1024  # of a dict; a dict of badly chosen integers takes quadratic time
_MAX_TEXT = 20000  # characters of an error
_MAX_NAME = 300  # characters of a sender's name
_TEXTS: tuple[Any, ...] = (str, bytes, dict)
_NUMBERS: tuple[Any, ...] = (int, float)
_DTYPE = re.compile(r"[<>|=]?[?biufcmMSUV]\d*(\[\d*[a-zA-Z]+\])?")
_ADVICE = "Send numbers, strings, bytes, None, lists, dicts and NumPy arrays, or use format='pickle' on both sides."


class WireError(ValueError):
    """The frames are not a message of this format."""


class VersionError(WireError):
    """The message has another version of this format."""


class Message(NamedTuple):
    """
    A decoded message.

    Attributes:
        kind: "H", "D", "P" or "E".
        sender: name of the sender, e.g. "host, pid 4711".
        content: the datapoint; for an error [stage, type, text, traceback], all str; for a greeting None.
    """

    kind: str
    sender: str
    content: Any


def encode_greeting(sender: str) -> list[Frame]:
    """Return the frame of a greeting."""
    return [_start("H") + msgpack.packb([sender])]


def encode_datapoint(sender: str, datapoint: Datapoint) -> list[Frame]:
    """
    Return the frames of a datapoint.

    Args:
        sender: name of the sender.
        datapoint: a list or dict of numbers, strings, bytes, None, lists, dicts and arrays. Tuples arrive as lists.

    Returns:
        Bytes and memoryviews. The memoryviews are views of the arrays, not copies.

    Raises:
        TypeError: the datapoint contains another type.
        ValueError: the datapoint has too many values outside of arrays and bytes.
    """
    if not isinstance(datapoint, (list, tuple, dict)):
        raise TypeError(
            f"a datapoint is {type(datapoint).__name__} (expected a list or a dict of components). "
            "Yield a list, also of a single component."
        )
    frames: list[Frame] = [b""]
    head = [sender, _with_bytes_apart(datapoint, frames)]
    try:
        body = msgpack.packb(head, use_bin_type=True, strict_types=True, default=partial(_encode, frames))
    except (OverflowError, RecursionError) as error:
        raise TypeError(f"the datapoint cannot be sent: {error}. {_ADVICE}") from error
    _check_limits(body)
    frames[0] = _start("D") + body
    return frames


def encode_pickle(sender: str, datapoint: Datapoint) -> list[Frame]:
    """Return the frames of a pickled datapoint."""
    frames: list[Frame] = [b""]
    place = _append(frames, PickleSerializer.dumps(datapoint))
    frames[0] = _start("P") + msgpack.packb([sender, *place])
    return frames


def encode_error(sender: str, stage: str, error: BaseException, trace: str) -> list[Frame]:
    """Return the frames of an error. They hold only text, so that any error can be decoded."""
    texts = [sender, stage, type(error).__name__, error_text(error), trace]
    short = [text[-_MAX_TEXT:].encode("utf-8", "replace").decode("utf-8") for text in texts]
    return [_start("E") + msgpack.packb(short)]


def decode(frames: list[Frame], allow_pickle: bool = False) -> Message:
    """
    Decode a message.

    Args:
        frames: the frames of one message: bytes, memoryviews or the buffers of `zmq.Frame`s.
        allow_pickle: unpickle a pickled datapoint, which runs code.

    Returns:
        The message. Its large arrays are views of the frames and are writable if the frames are. The content of a
        pickled datapoint is None if pickle is not allowed.

    Raises:
        VersionError: the message has another version.
        WireError: the frames are not a valid message.
    """
    head = memoryview(frames[0]).cast("B")
    if len(head) < 5 or head[:3] != _MAGIC:
        raise WireError(f"{len(head)} bytes that do not begin like a message")
    if head[3] != VERSION:
        raise VersionError(f"a message of version {head[3]} (expected {VERSION})")
    kind = chr(head[4])
    if kind not in "HDPE":
        raise WireError(f"a message of unknown kind {kind!r}")
    if len(head) > MAX_FRAME_BYTES:
        raise WireError(f"a first frame of {len(head)} bytes")
    reader = _Reader(frames)
    try:
        name, *content = _unpack(head[5:], reader)
        sender = _clean(name)[:_MAX_NAME]
        if kind == "P":
            pickled = reader.join(content)
            message = Message(kind, sender, PickleSerializer.loads(pickled) if allow_pickle else None)
        else:
            message = Message(kind, sender, _checked(kind, content))
        reader.check_all_used()
    except Exception as error:  # hostile bytes make msgpack, NumPy and pickle raise anything
        raise WireError(f"a damaged message: {type(error).__name__}: {error}") from error
    return message


def _start(kind: str) -> bytes:
    return _MAGIC + bytes([VERSION]) + kind.encode("ascii")


def _check_limits(body: bytes) -> None:
    """Raise at the sender the errors that the receiver would raise."""
    if len(body) + 5 > MAX_FRAME_BYTES:
        raise ValueError(
            f"a datapoint has too much outside of arrays (expected at most {MAX_FRAME_BYTES - 5} bytes, got {len(body)}). "
            "Convert its long lists to arrays."
        )
    if len(body) <= _MAX_KEYS:  # every value takes a byte
        return
    try:
        _unpack(memoryview(body), _Counter())
    except ValueError as error:
        raise ValueError(
            f"a datapoint has too many values: {error} (expected at most {MAX_VALUES} in a list, {_MAX_KEYS} in a dict, "
            f"and {MAX_VALUES} arrays and NumPy scalars in all). Convert its long lists to arrays."
        ) from error


def _append(frames: list[Frame], content: bytes | memoryview) -> list[int]:
    """Append bytes-like content to the frames. Return the number of its first frame and how many it takes."""
    view, first = memoryview(content), len(frames)
    frames.extend(view[start : start + MAX_FRAME_BYTES] for start in range(0, len(view), MAX_FRAME_BYTES))
    return [first, len(frames) - first]


def _with_bytes_apart(datapoint: Datapoint, frames: list[Frame]) -> Datapoint:
    """Move large bytes, e.g. compressed images, to separate frames; msgpack calls `default` only for other types."""

    def apart(component: object) -> object:
        if type(component) is not bytes or len(component) < _OUT_OF_BAND:
            return component
        return msgpack.ExtType(_BYTES, msgpack.packb(_append(frames, component)))

    if type(datapoint) in (list, tuple):
        return [apart(component) for component in datapoint]
    if type(datapoint) is dict:
        return {key: apart(component) for key, component in datapoint.items()}
    return datapoint


def _encode(frames: list[Frame], obj: object) -> object:
    """Convert to types of msgpack, which calls this for all other types, including subclasses and tuples."""
    if isinstance(obj, np.ndarray):
        return _encode_array(frames, np.asarray(obj))
    for base in _TEXTS:  # before NumPy scalars, because np.str_ is a str
        if isinstance(obj, base):
            return base(obj)
    if isinstance(obj, (list, tuple)):
        return list(obj)
    if isinstance(obj, np.generic):
        return msgpack.ExtType(_SCALAR, _packed(_dtype_code(obj.dtype), obj.tobytes()))
    for base in _NUMBERS:  # after NumPy scalars, because np.float64 is a float
        if isinstance(obj, base):
            return base(obj)
    if isinstance(obj, complex):
        return msgpack.ExtType(_COMPLEX, struct.pack("<dd", obj.real, obj.imag))
    raise TypeError(f"a datapoint holds {type(obj).__name__} {obj!r:.80}. {_ADVICE}")


def _encode_array(frames: list[Frame], array: np.ndarray) -> msgpack.ExtType:
    code, shape = _dtype_code(array.dtype), list(array.shape)
    if array.nbytes < _OUT_OF_BAND:
        return msgpack.ExtType(_ARRAY, _packed(code, shape, array.tobytes()))
    flat = np.ascontiguousarray(array).reshape(-1)
    place = _append(frames, flat.view(np.uint8).data)  # as uint8, because arrays of dates have no buffer
    return msgpack.ExtType(_ARRAY, _packed(code, shape, place))


def _packed(*parts: object) -> bytes:
    packed: bytes = msgpack.packb(parts, use_bin_type=True)
    if len(packed) > _MAX_EXTENSION:
        raise TypeError(f"a datapoint holds a NumPy value that takes {len(packed)} bytes to describe. {_ADVICE}")
    return packed


def _dtype_code(dtype: np.dtype[Any]) -> str | list[Any]:
    if dtype.hasobject:
        raise TypeError(f"a datapoint holds a NumPy array of Python objects (dtype object). {_ADVICE}")
    return dtype.str if dtype.names is None else dtype.descr


def _dtype(code: object) -> np.dtype[Any]:
    """Build a dtype from a harmless format, or from a list of fields: [name, format] or [name, format, shape]."""
    if isinstance(code, str) and _DTYPE.fullmatch(code):
        return np.dtype(code)
    if not isinstance(code, list) or not code:
        raise WireError(f"a dtype of {code!r:.80}")
    fields = []
    for name, format, *shape in code:
        name = tuple(name) if isinstance(name, list) else name
        fields.append((name, _dtype(format), *(tuple(int(n) for n in part) for part in shape)))
    return np.dtype(fields)


class _Counter:
    """Extension hook that counts the arrays and scalars of a datapoint without decoding them."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, code: int, data: bytes) -> object:
        self._count += 1
        if self._count > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} arrays and scalars")
        return None


class _Reader(_Counter):
    """Decoder of the first frame of a message and of the frames that it refers to."""

    def __init__(self, frames: list[Frame]) -> None:
        super().__init__()
        self._frames = frames
        self._unused = set(range(1, len(frames)))

    def join(self, place: Iterable[Any]) -> bytes | bytearray | memoryview:
        """Return the content of some frames, each of which can be used once. A single frame is not copied."""
        first, count = place
        are_numbers = type(first) is int and type(count) is int
        if not (are_numbers and 1 <= first < first + count <= len(self._frames)):
            raise WireError(f"a reference to frames {place!r:.40} of {len(self._frames)}")
        numbers = set(range(first, first + count))
        if not numbers <= self._unused:
            raise WireError(f"a second reference to frames {place!r:.40}")
        self._unused -= numbers
        return self._frames[first] if count == 1 else bytearray().join(self._frames[first : first + count])

    def check_all_used(self) -> None:
        if self._unused:
            raise WireError(f"{len(self._frames)} frames, of which {len(self._unused)} are not used")

    def __call__(self, code: int, data: bytes) -> object:
        super().__call__(code, data)
        if len(data) > _MAX_EXTENSION:
            raise WireError(f"an extension of {len(data)} bytes")
        if code == _COMPLEX:
            return complex(*struct.unpack("<dd", data))
        parts = msgpack.unpackb(data, raw=False)
        if code == _BYTES:
            return bytes(self.join(parts))
        if code == _SCALAR:
            return np.frombuffer(parts[1], dtype=_dtype(parts[0]), count=1)[0]
        if code == _ARRAY:
            return self._array(*parts)
        raise WireError(f"an extension of unknown type {code}")

    def _array(self, code: object, shape: Iterable[object], content: Any) -> np.ndarray:
        outside = isinstance(content, list)
        buffer = self.join(content) if outside else content
        array = np.frombuffer(buffer, dtype=_dtype(code)).reshape([_length(n) for n in shape])
        if outside and array.flags.writeable and array.flags.aligned:
            return array
        return array.copy()


def _unpack(body: memoryview, extension: Callable[[int, bytes], object]) -> Any:
    """
    Decode the msgpack of a first frame.

    msgpack allocates a list from its declared length before it reads the elements, and lists can be nested a thousand
    deep. The limit on their length bounds that memory to 134 MB.
    """
    return msgpack.unpackb(
        body,
        raw=False,
        strict_map_key=False,
        ext_hook=extension,
        max_array_len=MAX_VALUES,
        max_map_len=_MAX_KEYS,
    )


def _checked(kind: str, content: list[Any]) -> Datapoint | list[str] | None:
    """Return the content of a greeting, a datapoint or an error."""
    if kind == "H" and not content:
        return None
    if kind == "D" and len(content) == 1 and isinstance(content[0], (list, dict)):
        return content[0]
    if kind == "E" and len(content) == 4:
        return [_clean(part) for part in content]
    raise WireError(f"a message of kind {kind} with other content")


def _length(number: object) -> int:
    if not isinstance(number, int) or number < 0:  # -1 has a special meaning in NumPy
        raise WireError(f"a length of {number!r:.20}")
    return number


def _clean(text: object) -> str:
    """Return the text of a peer without control characters, which could change a terminal."""
    if not isinstance(text, str):
        raise WireError(f"expected a string, got {type(text).__name__}")
    text = text[-_MAX_TEXT:]
    if text.isprintable():  # the names of senders, in each message
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
