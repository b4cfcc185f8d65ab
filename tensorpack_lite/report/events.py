"""Reader of the images and texts in TensorFlow's event files, without TensorFlow."""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..dataflow.files.tfrecord import read_records
from ..utils.protobuf import read_fields

NUM_PARTS = 10
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
# fields of the messages Event, Summary, Summary.Value, Summary.Image and TensorProto
_WALL_TIME, _STEP, _SUMMARY = 1, 2, 5
_VALUE = 1
_TAG, _IMAGE, _TENSOR = 1, 4, 8
_STRING_VAL = 8
_METADATA = 9
_PLUGIN_NAME = b"\x0a\x04text"  # the field of SummaryMetadata.PluginData, of TensorBoard's plugin
_HEIGHT, _WIDTH, _ENCODED = 1, 2, 4


class LoggedImage(NamedTuple):
    """
    An image of a summary.

    Attributes:
        step: the global step.
        wall_time: seconds since 1970.
        width, height: in pixels.
        content: a PNG or JPEG file.
    """

    step: int
    wall_time: float
    width: int
    height: int
    content: bytes


class LoggedText(NamedTuple):
    """
    The texts of a summary.

    Attributes:
        step: the global step.
        texts: at least one.
    """

    step: int
    texts: List[str]


def read_logged(
    path: str,
    last_step: Optional[int],
    images: Dict[str, List[LoggedImage]],
    texts: Dict[str, List[LoggedText]],
) -> None:
    """
    Read the images and texts of an event file: of each tag, the newest in each tenth of the training.

    Args:
        path: the file.
        last_step: the number of steps of the training; None if it is unknown: then only the newest ones are kept.
        images, texts: by tag, in the order of their steps; receive those that are read, also before an error.

    Raises:
        DamagedFileError: the file is damaged, or was not written completely.
        OSError: the file cannot be read.
    """
    for record in read_records(path, verify=False):
        if _PNG in record or _JPEG in record:  # the other events, which are most of them, are not parsed
            for tag, image in _images_in(record):
                _keep(images.setdefault(tag, []), image, last_step)
        if _PLUGIN_NAME in record or any(tag.encode() in record for tag in texts):  # TensorFlow names it only once
            for tag, text in _texts_in(record, texts):
                _keep(texts.setdefault(tag, []), text, last_step)


def _keep(kept: List[Any], logged: Any, last_step: Optional[int]) -> None:
    """Replace what was logged in the same tenth of the training, unless that is newer."""
    part = _part(logged.step, last_step)
    same_part = [earlier for earlier in kept if _part(earlier.step, last_step) == part]
    if all(earlier.step <= logged.step for earlier in same_part):
        kept[:] = sorted([*(image for image in kept if image not in same_part), logged], key=lambda image: image.step)


def _part(step: int, last_step: Optional[int]) -> int:
    return 0 if not last_step else min(NUM_PARTS - 1, max(0, (step - 1) * NUM_PARTS // last_step))


def _images_in(record: bytes) -> Iterator[Tuple[str, LoggedImage]]:
    event = _fields(record)
    (wall_time,) = struct.unpack("<d", event.get(_WALL_TIME, bytes(8)))
    values = read_fields(event.get(_SUMMARY, b""))
    for fields in (_fields(value) for number, value in values if number == _VALUE):
        image = _fields(fields.get(_IMAGE, b""))
        content = image.get(_ENCODED, b"")
        if content.startswith((_PNG, _JPEG)):
            size = image.get(_WIDTH, 0), image.get(_HEIGHT, 0)
            tag = fields.get(_TAG, b"").decode("utf-8", errors="replace")
            yield tag, LoggedImage(event.get(_STEP, 0), wall_time, *size, content)


def _texts_in(record: bytes, known: Dict[str, List[LoggedText]]) -> Iterator[Tuple[str, LoggedText]]:
    event = _fields(record)
    for number, value in read_fields(event.get(_SUMMARY, b"")):
        fields = _fields(value) if number == _VALUE else {}
        tag = fields.get(_TAG, b"").decode("utf-8", errors="replace")
        if tag in known or _PLUGIN_NAME in fields.get(_METADATA, b""):
            parts = read_fields(fields.get(_TENSOR, b""))
            strings = [content for kind, content in parts if kind == _STRING_VAL and isinstance(content, bytes)]
            texts = [content.decode("utf-8", errors="replace") for content in strings]
            if texts:
                yield tag, LoggedText(event.get(_STEP, 0), texts)


def _fields(message: Any) -> Dict[int, Any]:
    """Return the last value of each field of a message."""
    return dict(read_fields(message))
