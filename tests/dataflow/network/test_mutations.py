"""Random mutations of network messages: each is decoded or raises the documented error."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tensorpack_lite.dataflow.network.wire import (
    WireError,
    decode,
    encode_datapoint,
    encode_error,
    encode_greeting,
    encode_pickle,
)
from tensorpack_lite.utils.serialize import MsgpackSerializer

RECORD = np.ones(3, [("a", "<f4"), ("b", "<i2", (2,))])
DATAPOINT = [
    np.arange(4),
    {"k": (1.5, None, "text", 3)},
    np.float32(1),
    1j,
    np.zeros(600),
    b"j" * 5000,
    RECORD,
]
MESSAGES = {
    "datapoint": encode_datapoint("me", DATAPOINT),
    "error": encode_error("me", "MapData", ValueError("wrong"), "line 1\nline 2"),
    "greeting": encode_greeting("me"),
    "pickle": encode_pickle("me", [1, 2]),
}
MUTATIONS = 500


def mutate(random: np.random.RandomState, data: bytes) -> bytes:
    """Change, remove, double or insert some bytes."""
    mutated = bytearray(data)
    for _ in range(random.randint(1, 5)):
        start = random.randint(len(mutated) + 1)
        stop = start + random.randint(1, 9)
        mutated[start:stop] = [
            random.bytes(len(mutated[start:stop])),
            b"",
            bytes(mutated[start:stop]) * 2,
            random.bytes(random.randint(1, 9)),
        ][random.randint(4)]
    return bytes(mutated)


def mutate_frames(random: np.random.RandomState, frames: list[bytes]) -> list[bytes]:
    """Damage a frame, usually the first one, or drop, double or swap frames."""
    frames = [bytes(frame) for frame in frames]
    kind = random.randint(8)
    if kind < 5:
        frames[0] = mutate(random, frames[0])
    elif kind == 5:
        at = random.randint(len(frames))
        frames[at] = mutate(random, frames[at])
    elif kind == 6:
        del frames[random.randint(len(frames))]
    else:
        frames.insert(random.randint(len(frames) + 1), frames[random.randint(len(frames))])
    return frames or [b""]


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_messages(name):
    """Each of 500 mutated messages is decoded or raises WireError, without an endless computation."""
    random, refused = np.random.RandomState(0), 0
    for _ in range(MUTATIONS):
        frames = mutate_frames(random, MESSAGES[name])
        began = time.process_time()
        try:
            decode(frames)
        except WireError:
            refused += 1
        assert time.process_time() - began < 20
    assert MUTATIONS / 4 < refused <= MUTATIONS


@pytest.mark.parametrize("seed", range(4))
def test_msgpack_serializer(seed):
    """Each of 500 mutated objects is decoded or raises ValueError."""
    random, refused = np.random.RandomState(seed), 0
    good = MsgpackSerializer.dumps([DATAPOINT[0], DATAPOINT[1], RECORD, np.float32(2), 1j])
    for _ in range(MUTATIONS):
        try:
            MsgpackSerializer.loads(mutate(random, good))
        except ValueError:
            refused += 1
    assert MUTATIONS / 4 < refused < MUTATIONS
