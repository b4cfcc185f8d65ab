"""A PNG encoder that needs only zlib."""

from __future__ import annotations

import struct
import zlib

import numpy as np

__all__ = ["encode_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> grey, grey + alpha, RGB, RGBA


def encode_png(image: np.ndarray) -> bytes:
    """
    Encode an image as PNG.

    Args:
        image: uint8 `[H, W, C]` with C = 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGB and alpha).

    Returns:
        The content of a PNG file.

    Raises:
        ValueError: another dtype or shape.

    Source: https://www.w3.org/TR/png/
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in _COLOR_TYPES or 0 in image.shape:
        raise ValueError(
            "encode_png: the image has the wrong dtype or shape (expected uint8 [H, W, C] with 1 to 4 channels, got "
            f"{image.dtype} {image.shape}). Convert it first."
        )
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    # each row starts with the number of its filter; 0 means none
    rows = np.pad(image.reshape(height, width * channels), [(0, 0), (1, 0)])
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(rows.tobytes()), b"IEND": b""}
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks.items())


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content) & 0xFFFFFFFF
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
