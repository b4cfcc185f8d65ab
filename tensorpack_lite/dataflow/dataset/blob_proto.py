"""
Reader of Caffe's `BlobProto`, a protocol buffer with an array of floats, without Caffe.

Field numbers of the message: 1 to 4 are num, channels, height, width (old shape); 5 is data (float); 7 is
shape, a message with the sizes in field 1; 8 is double_data.
"""

from __future__ import annotations

import numpy as np

from ...utils.errors import parsing
from ...utils.protobuf import read_fields, read_integers

__all__ = ["read_blob_proto"]

_OLD_SHAPE, _DATA, _SHAPE, _DOUBLE_DATA = (1, 2, 3, 4), 5, 7, 8


def read_blob_proto(path: str) -> np.ndarray:
    """
    Read the array of a `.binaryproto` file.

    Args:
        path: the file.

    Returns:
        float32, with the shape in the file. An old shape loses its leading sizes of 1: [3, 256, 256] for
        ImageNet's mean.

    Raises:
        DamagedFileError: the file is damaged or is not a BlobProto.
        OSError: the file cannot be opened.
    """
    with open(path, "rb") as file:
        content = file.read()
    with parsing(path, f"a BlobProto ({len(content)} bytes)"):
        return _decode(content)


def _decode(content: bytes) -> np.ndarray:
    old_shape = dict.fromkeys(_OLD_SHAPE, 1)
    shape: list[int] = []
    values = []
    for number, value in read_fields(content):
        if number in old_shape and isinstance(value, int):
            old_shape[number] = value
        elif number == _SHAPE and isinstance(value, bytes):
            shape = [size for key, sizes in read_fields(value) if key == 1 for size in read_integers(sizes)]
        elif number in (_DATA, _DOUBLE_DATA) and isinstance(value, bytes):
            values.append(np.frombuffer(value, "<f4" if number == _DATA else "<f8"))
    array = np.concatenate(values).astype(np.float32)
    if not shape:
        shape = list(old_shape.values())
        while len(shape) > 1 and shape[0] == 1:
            shape.pop(0)
    return array.reshape(shape)
