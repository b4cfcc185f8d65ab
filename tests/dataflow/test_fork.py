"""Tests of DataFlows that are reset in one process and iterated in a fork of it."""

from __future__ import annotations

import itertools
import multiprocessing

import pytest
from fakes.reading import same

from tensorpack_lite.dataflow import (
    DataFromGenerator,
    MultiProcessMapAndBatchDataZMQ,
    MultiProcessMapDataZMQ,
    MultiProcessRunnerZMQ,
    MultiThreadMapData,
    MultiThreadRunner,
)


def numbers():
    """Return a DataFlow that never ends."""
    return DataFromGenerator(itertools.count)


def lists():
    """Return an endless DataFlow of datapoints that can be batched."""
    return DataFromGenerator(lambda: ([k] for k in itertools.count()))


FLOWS = {
    "MultiThreadRunner": lambda: MultiThreadRunner(numbers, 3, 1),
    "MultiThreadMapData": lambda: MultiThreadMapData(numbers(), 1, same, buffer_size=3),
    "MultiProcessRunnerZMQ": lambda: MultiProcessRunnerZMQ(numbers(), 1),
    "MultiProcessMapDataZMQ": lambda: MultiProcessMapDataZMQ(numbers(), 1, same, buffer_size=3),
    "MultiProcessMapAndBatchDataZMQ": lambda: MultiProcessMapAndBatchDataZMQ(lists(), 1, same, 2),
}


def iterate_and_report(flow, connection):
    """Iterate in the fork, and send the datapoints or the error."""
    try:
        connection.send(list(itertools.islice(flow, 100)))
    except RuntimeError as error:
        connection.send(str(error))


@pytest.mark.parametrize("name", FLOWS)
def test_iterating_in_a_fork(name):
    """Iterating in a fork raises RuntimeError, instead of waiting forever or taking the parent's data."""
    flow = FLOWS[name]()
    flow.reset_state()
    next(iter(flow))
    here, there = multiprocessing.Pipe()
    fork = multiprocessing.get_context("fork").Process(target=iterate_and_report, args=(flow, there))
    fork.start()
    try:
        assert here.poll(60), "the fork hangs"
        assert f"{name}: cannot be iterated in process {fork.pid}, because reset_state() started" in here.recv()
    finally:
        fork.kill()
        fork.join()
    next(iter(flow))


def reset_in_daemon(name, connection):
    """Reset a DataFlow, and send the text of its error."""
    try:
        FLOWS[name]().reset_state()
        connection.send("")
    except RuntimeError as error:
        connection.send(str(error))


@pytest.mark.parametrize("name", [name for name in FLOWS if "Process" in name])
def test_a_daemonic_process(name):
    """In a daemonic process, which may have no children, workers are an error that explains what to do."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=reset_in_daemon, args=(name, there), daemon=True)
    process.start()
    there.close()  # so that `recv` raises EOFError if the process ends without an answer
    text = here.recv()
    process.join()
    assert text.startswith(f"{name}: cannot start processes in '{process.name}'")
    assert "MultiThreadMapData" in text
