"""Tests that datapoints arrive, over real sockets from senders in threads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fakes.remote import Counting, free_tcp, receive

from tensorpack_lite.dataflow.remote import (
    RemoteDataZMQ,
)


class Passes(Counting):
    """Passes of three datapoints."""

    def __iter__(self):
        yield from itertools.islice(super().__iter__(), 3)


class OneArray(Counting):
    """Datapoints that share one array, with changing values."""

    def __iter__(self):
        array = np.zeros(50000)
        for _, k in super().__iter__():
            array[:] = k
            yield [array, k]


class TestDatapoints:
    @pytest.mark.parametrize("format", [None, "msgpack", "pickle"])
    def test_the_order(self, format, address, send):
        """Datapoints arrive in order and with writable arrays, in every format."""
        send(address, format=format)
        flow = RemoteDataZMQ(address, format=format)
        flow.reset_state()
        for k, (array, number) in enumerate(itertools.islice(flow, 30)):
            assert k == number
            np.testing.assert_array_equal(np.full(2000, k, np.float32), array)
            array += 1  # can be written to

    def test_pass_after_pass(self, ipc, send):
        """The sender starts another pass when one ends."""
        send(ipc, flow=Passes())
        assert [0, 1, 2, 0, 1, 2, 0] == receive(RemoteDataZMQ(ipc), 7)

    def test_several_senders(self, address, send):
        """One receiver gets the datapoints of several senders, in order for each sender."""
        for first in (0, 10**6, 2 * 10**6):
            send(address, first)
        found, flow = {0: [], 1: [], 2: []}, RemoteDataZMQ(address)
        flow.reset_state()
        for _, number in flow:
            found[number // 10**6].append(number % 10**6)
            if min(len(numbers) for numbers in found.values()) >= 5:
                break
        assert all(list(range(len(numbers))) == numbers for numbers in found.values())

    def test_the_sender_binds(self, address, send):
        """The sender may bind and the receiver connect."""
        send(address, bind=True)
        assert [0, 1, 2] == receive(RemoteDataZMQ(address, bind=False), 3)

    def test_two_addresses_are_counted(self, ipc, send):
        """`cnt1` and `cnt2` count the consumed datapoints of each address."""
        tcp = free_tcp()
        send(ipc, 0)
        send(tcp, 10**6)
        flow = RemoteDataZMQ(ipc, tcp)
        flow.reset_state()
        seen = [0, 0]
        for _, number in flow:
            assert tuple(seen) == (flow.cnt1, flow.cnt2)  # the current datapoint is not consumed yet
            seen[number // 10**6] += 1
            if min(seen) >= 3:
                break
        assert sum(seen) - 1 == flow.cnt1 + flow.cnt2
        flow.reset_state()
        assert (0, 0) == (flow.cnt1, flow.cnt2)

    def test_the_sender_may_reuse_its_memory(self, ipc, send):
        """A DataFlow that yields one array with changing values is sent correctly."""
        send(ipc, flow=OneArray())
        flow = RemoteDataZMQ(ipc)
        flow.reset_state()
        for array, number in itertools.islice(flow, 20):
            assert (number, number) == (array.min(), array.max())
