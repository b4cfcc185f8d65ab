"""
Meeting, gather, scatter, save, resume, comparison and deadlock of many ranks: threads of one process, over the loopback interface.

Forty ranks in CI, a thousand as proof. The bytes that the hub sends are counted, because they decide what a thousand ranks cost.
"""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.launching import TESTS, start, wait

resource = pytest.importorskip("resource")

from tensorpack_lite.ranks.channel import RankChannel  # noqa: E402
from tensorpack_lite.ranks.cluster import free_ports  # noqa: E402
from tensorpack_lite.ranks.connecting import RankError  # noqa: E402
from tensorpack_lite.ranks.hub import RankHub  # noqa: E402
from tensorpack_lite.train.exact.rank_states import _encode, gather_states, take_part  # noqa: E402
from tensorpack_lite.train.rank_connection import RankConnection  # noqa: E402

SIZES = [40, pytest.param(1000, marks=pytest.mark.proof)]


class Ranks:
    """Channels of many ranks in one process, and the number of bytes that the hub has sent, without ticks."""

    def __init__(self, size):
        self.num_sent = 0
        self.pool = ThreadPoolExecutor(size)
        address = ("127.0.0.1", free_ports(1)[0])
        self.channels = list(
            self.pool.map(lambda rank: RankChannel(rank, size, address, 300.0, on_hang=print), range(size))
        )

    def call(self, function):
        """Call a function for each channel at the same time. Return the results, and the bytes that the hub has sent."""
        before = self.num_sent
        results = list(self.pool.map(function, self.channels))
        return results, self.num_sent - before

    def close(self):
        for channel in self.channels[::-1]:
            channel.is_closed = True  # all at once, without waiting for the threads of each
        for channel in self.channels[::-1]:
            channel.is_closed = False
            channel.close()
        self.pool.shutdown()


@pytest.fixture
def connect(monkeypatch):
    """Function that connects ranks, which are closed after the test."""
    opened, send = [], RankHub._send

    def count(hub, rank, line):
        if opened and b'"type": "tick"' not in line[:40]:
            opened[-1].num_sent += len(line)
        send(hub, rank, line)

    monkeypatch.setattr(RankHub, "_send", count)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    stack = threading.stack_size(1 << 18)

    def make(size):
        opened.append(Ranks(size))
        return opened[-1]

    yield make
    for ranks in opened:
        ranks.close()
    threading.stack_size(stack)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def watch_of(channel):
    """Return a RankConnection around a channel that is connected already."""
    watch = RankConnection.__new__(RankConnection)
    watch.rank, watch.size, watch.channel = channel.rank, channel.size, channel
    return watch


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_values(connect, size):
    """All ranks meet. A gather gives all ranks or the chief the values of all, and a scatter gives each rank its own."""
    ranks = connect(size)
    assert [list(range(size))] * size == ranks.call(lambda c: c.all_gather("all", c.rank))[0]
    assert [list(range(size)), *[None] * (size - 1)] == ranks.call(lambda c: c.gather("chief", c.rank))[0]
    values = [f"part {rank}" for rank in range(size)]
    assert values == ranks.call(lambda c: c.scatter("each", None if c.rank else values))[0]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_states(connect, size):
    """At a save and at a resume, the hub sends each state once: its bytes grow with the number of ranks, not with its square."""
    ranks, states = (
        connect(size),
        [{"rank": rank, "numbers": os.urandom(10_000).hex()} for rank in range(size)],
    )
    total = sum(len(_encode(state)) for state in states)
    saved, num_sent = ranks.call(lambda c: gather_states(c, states[c.rank]))
    assert [states, *[None] * (size - 1)] == saved
    assert total < num_sent < 1.3 * total + 100 * size**2
    parts, num_sent = ranks.call(lambda c: take_part(c, None if c.rank else states))
    assert states == parts
    assert total < num_sent < 1.3 * total + 100 * size**2


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_comparisons(connect, size):
    """Equal ranks send digests only to the chief. If ranks differ, one of them gets the chief's description, and all its sentence."""
    ranks = connect(size)
    graph = {f"operation {i}": "MatMul a b" for i in range(2000)}
    length = sum(len(f'["{name}", "{text}"], ') for name, text in graph.items())
    _, num_sent = ranks.call(lambda c: watch_of(c).compare(graph))
    assert num_sent < 300 * size
    told = (
        f"Rank {size // 2} does not match rank 0: its operation 7 is Add a b, and MatMul a b on rank 0. All ranks must"
    )

    def compare(channel):
        different = {**graph, "operation 7": "Add a b"}
        with pytest.raises(RankError, match=re.escape(told)):
            watch_of(channel).compare(different if channel.rank >= size // 2 else graph)

    _, num_sent = ranks.call(compare)
    assert length < num_sent < 1.1 * length + (1000 + 10 * size) * size


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_deadlock(connect, size):
    """Half of the ranks wait in one gather and half in another: all of them end, with the names of two ranks."""
    ranks = connect(size)

    def wait(channel):
        with pytest.raises(RankError) as error:
            channel.all_gather(f"half {channel.rank % 2}", 0)
        return str(error.value)

    told = set(ranks.call(wait)[0])
    assert 1 == len(told)
    pair = re.match(r"Rank (\d+) and rank (\d+) wait for each other in different places", told.pop())
    assert 1 == sum(map(int, pair.groups())) % 2


@pytest.mark.proof
def test_the_cost_of_the_hub():
    """With 1,000 ranks, the hub takes less than 10 % of a core and 128 MB, also during a gather and a scatter of 16 MB."""
    script = TESTS.parent / "benchmarks" / "ranks_model.py"
    done = wait(start(script, "--measure-channel", 1000))
    costs = {name: float(value) for name, value in re.findall(r"([a-z]+), [^:]+: ([0-9.e+]+)", done.out)}
    assert costs["beat"] * 1000 / 1e6 < 0.1, done.out + done.err
    assert costs["memory"] < 128
