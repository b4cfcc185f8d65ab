"""
The TFRecord file: a row of records, each with its length and two checksums. No TensorFlow needed.

In:  the bytes of records.
Out: a file that TensorFlow reads, and the other way round.

A record is its length (8 bytes), the checksum of the length (4), the record, and its checksum (4), all little-endian.
The checksum is CRC-32C, rotated and shifted as TensorFlow does.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, BinaryIO, Iterator

import numpy as np

from ...utils.errors import DamagedFileError, parsing

__all__ = ["crc32c", "read_records", "write_record"]

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, bits reversed
_MASK_DELTA = 0xA282EAD8  # TensorFlow's
_BLOCK = 64  # bytes whose checksums are looked up at once
_CHUNK = 1 << 10  # blocks; 64 KiB, so that the indices stay in the cache
_BUFFER_BYTES = 1 << 20


def write_record(file: BinaryIO, record: bytes) -> None:
    """
    Append one record.

    Args:
        file: open for writing.
        record: its bytes.
    """
    length = struct.pack("<Q", len(record))
    file.write(length + struct.pack("<I", _masked(crc32c(length))))
    file.write(record)
    file.write(struct.pack("<I", _masked(crc32c(record))))


def read_records(path: str) -> Iterator[bytes]:
    """
    Read all records of a file, and check them.

    Args:
        path: of the file, not compressed.

    Yields:
        The bytes of each record, in their order.

    Raises:
        OSError: the file cannot be read.
        DamagedFileError: the file is not a TFRecord file, is cut off, or a record is damaged; the message has its number.
    """
    with open(path, "rb", buffering=_BUFFER_BYTES) as file:
        number = 0
        while True:
            header = file.read(12)
            if not header:
                return
            yield _read_one(file, header, f"{path}: record {number}")
            number += 1


def crc32c(data: Any) -> int:
    """
    Compute the CRC-32C (Castagnoli) of bytes, at some hundred MB/s.

    A checksum is linear: that of a row of bytes is the exclusive or of what each byte contributes from its place. The
    contributions within a block are looked up for many blocks at once; then neighbouring blocks are joined, and so on.

    Args:
        data: bytes, or anything with a buffer.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    view = memoryview(data).cast("B")
    if len(view) < 4 * _BLOCK:
        return _crc_of_few(view)
    padded = np.zeros(-(-len(view) // _BLOCK) * _BLOCK, dtype=np.uint8)  # zeros in front change nothing
    padded[-len(view) :] = np.frombuffer(view, dtype=np.uint8)
    padded[-len(view) : len(padded) - len(view) + 4] ^= 0xFF  # the usual start value
    blocks = _crc_of_blocks(padded.reshape(-1, _BLOCK))
    level = 0
    while len(blocks) > 1:
        if len(blocks) % 2:
            blocks = np.concatenate([np.zeros(1, np.uint32), blocks])
        blocks = _shifted(blocks[0::2], _shift_tables(level)) ^ blocks[1::2]
        level += 1
    return int(blocks[0]) ^ 0xFFFFFFFF


def _read_one(file: BinaryIO, header: bytes, where: str) -> bytes:
    if len(header) < 12:
        raise DamagedFileError(f"{where} is cut off. Was the file written to its end?")
    (length, checksum) = struct.unpack("<QI", header)
    if checksum != _masked(crc32c(header[:8])):
        raise DamagedFileError(f"{where} has a damaged length. Is this an uncompressed TFRecord file?")
    with parsing(where, "a TFRecord"):  # a length beyond any memory
        record = file.read(length)
    trailer = file.read(4)
    if len(record) < length or len(trailer) < 4:
        raise DamagedFileError(f"{where} is cut off. Was the file written to its end?")
    if struct.unpack("<I", trailer)[0] != _masked(crc32c(record)):
        raise DamagedFileError(f"{where} is damaged: its checksum is wrong.")
    return record


def _masked(checksum: int) -> int:
    return (((checksum >> 15) | (checksum << 17)) + _MASK_DELTA) & 0xFFFFFFFF


@lru_cache(maxsize=1)
def _byte_table() -> np.ndarray:
    """What a byte does to a checksum: uint32 [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


@lru_cache(maxsize=1)
def _byte_list() -> list[int]:
    numbers: list[int] = _byte_table().tolist()
    return numbers


@lru_cache(maxsize=1)
def _place_table() -> np.ndarray:
    """What a byte contributes from each place of a block: uint32 [64 * 256]."""
    rows = [_byte_table()]
    while len(rows) < _BLOCK:
        rows.append(_after_zero(rows[-1]))
    return np.concatenate(rows[::-1])


@lru_cache(maxsize=None)
def _shift_tables(level: int) -> np.ndarray:
    """What 64 * 2^level zero bytes do to each byte of a checksum: uint32 [4, 256]."""
    if level > 0:
        half = _shift_tables(level - 1)
        return _shifted(half, half)
    tables = np.stack([np.arange(256, dtype=np.uint32) << np.uint32(8 * k) for k in range(4)])
    for _ in range(_BLOCK):
        tables = _after_zero(tables)
    return tables


def _after_zero(checksums: np.ndarray) -> np.ndarray:
    return _byte_table()[checksums & 0xFF] ^ (checksums >> np.uint32(8))


def _shifted(checksums: np.ndarray, tables: np.ndarray) -> np.ndarray:
    low, high = checksums & 0xFFFF, checksums >> np.uint32(16)
    return (
        tables[0][low & 0xFF]
        ^ tables[1][low >> np.uint32(8)]
        ^ tables[2][high & 0xFF]
        ^ tables[3][high >> np.uint32(8)]
    )


def _crc_of_blocks(blocks: np.ndarray) -> np.ndarray:
    table, places = _place_table(), np.arange(_BLOCK, dtype=np.intp) * 256
    found = [
        np.bitwise_xor.reduce(table.take(blocks[start : start + _CHUNK] + places), axis=1)
        for start in range(0, len(blocks), _CHUNK)
    ]
    return np.concatenate(found)


def _crc_of_few(view: memoryview) -> int:
    table, checksum = _byte_list(), 0xFFFFFFFF
    for byte in view:
        checksum = table[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    return checksum ^ 0xFFFFFFFF
