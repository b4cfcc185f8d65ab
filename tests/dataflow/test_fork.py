"""A DataFlow that was reset in one process and is iterated in a fork of it."""

from __future__ import annotations

import itertools
import multiprocessing

import pytest

from tensorpack_lite.dataflow import (
    DataFromGenerator,
    MultiProcessMapDataZMQ,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadRunner,
)


def numbers():
    """A source that never ends."""
    return DataFromGenerator(itertools.count)


def identity(datapoint):
    """Change nothing."""
    return datapoint


FLOWS = {
    "MultiThreadRunner": lambda: MultiThreadRunner(numbers, 3, 1),
    "MultiThreadMapData": lambda: MultiThreadMapData(numbers(), 1, identity, buffer_size=3),
    "MultiProcessRunnerZMQ": lambda: MultiProcessRunnerZMQ(numbers(), 1),
    "MultiProcessMapDataZMQ": lambda: MultiProcessMapDataZMQ(numbers(), 1, identity, buffer_size=3),
}


def iterate_and_report(flow, connection):
    """Run in the fork."""
    try:
        connection.send(list(itertools.islice(flow, 100)))
    except RuntimeError as error:
        connection.send(str(error))


@pytest.mark.parametrize("name", FLOWS)
def test_it_is_refused(name):
    """Its threads do not run in the fork, its processes belong to the parent: the fork must not wait, or take their data."""
    flow = FLOWS[name]()
    flow.reset_state()
    next(iter(flow))
    here, there = multiprocessing.Pipe()
    fork = multiprocessing.get_context("fork").Process(target=iterate_and_report, args=(flow, there))
    fork.start()
    try:
        assert here.poll(60), "the fork hangs"
        assert f"{name}: is iterated in process {fork.pid}, but its workers were started by" in here.recv()
    finally:
        fork.kill()
        fork.join()
    next(iter(flow))
