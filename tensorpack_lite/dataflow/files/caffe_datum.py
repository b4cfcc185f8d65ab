"""
Decoder of Caffe's message `Datum`, an image with its label, which needs neither Caffe nor protobuf.

In:  a value in Caffe's LMDB.
Out: an image and a label.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils.optional import load_optional
from ...utils.protobuf import read_fields

_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _FLOAT_DATA, _ENCODED = range(1, 8)  # numbers of the fields


def decode_datum(message: bytes) -> list[Any]:
    """
    Decode an image and its label.

    Args:
        message: the serialized message.

    Returns:
        [image, label]. The image is uint8 [H, W, C], or float32 if Caffe stored floats, with Caffe's order of channels,
        which is BGR for color images. The label is an int.

    Raises:
        ValueError: the bytes are not a Datum, or the image does not have the size in the message.
        ImportError: the image is compressed, and OpenCV is not installed.
    """
    try:
        fields = _read(message)
    except ValueError as error:
        raise ValueError(f"Datum: {error}") from error
    label = fields.get(_LABEL, 0)
    if label >= 1 << 63:  # a negative number
        label -= 1 << 64
    if fields.get(_ENCODED):
        return [_decompress(fields.get(_DATA, b"")), label]
    shape = [fields.get(field, 0) for field in (_CHANNELS, _HEIGHT, _WIDTH)]
    number, dtype = (_FLOAT_DATA, np.float32) if _FLOAT_DATA in fields else (_DATA, np.uint8)
    flat = np.frombuffer(fields.get(number, b""), dtype)
    if flat.size != shape[0] * shape[1] * shape[2]:
        raise ValueError(
            f"Datum: the size is wrong (expected {tuple(shape)} for channels, height and width, got {flat.size} values)."
        )
    return [np.ascontiguousarray(flat.reshape(shape).transpose(1, 2, 0)), label]


def _read(message: bytes) -> dict[int, Any]:
    """Read all fields; the parts of a repeated field are joined."""
    fields: dict[int, Any] = {}
    for number, value in read_fields(message):
        if number == _FLOAT_DATA:
            if not isinstance(value, bytes) or len(value) % 4:
                raise ValueError("float_data does not hold floats.")
            value = fields.get(number, b"") + value
        elif number <= _ENCODED and isinstance(value, bytes) != (number == _DATA):
            raise ValueError(f"field {number} has the wrong type, {type(value).__name__}.")
        fields[number] = value
    return fields


def _decompress(data: bytes) -> np.ndarray:
    cv2 = load_optional("cv2", "Datum")
    image = cv2.imdecode(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_UNCHANGED) if data else None
    if image is None:
        raise ValueError("Datum: the compressed image cannot be read.")
    return image if image.ndim == 3 else image[:, :, np.newaxis]
