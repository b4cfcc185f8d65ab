"""Random damage to the bytes of a file, reproducible by its seed."""

from __future__ import annotations

import random

__all__ = ["mutate"]


def mutate(content, seed, kinds=None):
    """Damage some bytes, in one of the given ways or any. Return what was done, and the new content, which differs."""
    rng = random.Random(seed)
    while True:
        kind = rng.choice(kinds or sorted(_KINDS))
        damaged = bytes(_KINDS[kind](bytearray(content), rng))
        if damaged != content:
            return kind, damaged


def _flip_bits(content, rng):
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        content[_place(content, rng)] ^= 1 << rng.randrange(8)
    return content


def _set_bytes(content, rng):
    for _ in range(rng.choice([1, 4, 32])):
        content[_place(content, rng)] = rng.choice([0, 0xFF, rng.randrange(256)])
    return content


def _truncate(content, rng):
    return content[: _place(content, rng)]


def _insert(content, rng):
    place = _place(content, rng)
    content[place:place] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 512, 4096])))
    return content


def _zero_block(content, rng):
    place, size = _place(content, rng), rng.choice([4, 64, 512, 4096])
    size = min(size, len(content) - place)
    content[place : place + size] = bytes(size)
    return content


def _swap_blocks(content, rng):
    size = max(1, min(rng.choice([8, 512, 4096]), len(content) // 2))
    one, other = (rng.randrange(len(content) // size) * size for _ in range(2))
    content[one : one + size], content[other : other + size] = (
        content[other : other + size],
        content[one : one + size],
    )
    return content


def _place(content, rng):
    """Return a random position, often near the ends, where most formats have their headers and tables."""
    near = min(len(content), 300)
    return rng.choice([rng.randrange(len(content)), rng.randrange(near), len(content) - 1 - rng.randrange(near)])


_KINDS = {
    "bits flipped": _flip_bits,
    "bytes set": _set_bytes,
    "truncated": _truncate,
    "bytes inserted": _insert,
    "block zeroed": _zero_block,
    "blocks swapped": _swap_blocks,
}
