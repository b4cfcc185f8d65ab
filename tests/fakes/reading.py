"""Data sources that several test files use, and functions for spawned processes, which cannot import a test file."""

from __future__ import annotations

import itertools

from tensorpack_lite.dataflow.raw import DataFromList

__all__ = ["broken_once", "flow_of", "ready", "same", "send_second_half", "take"]


def flow_of(datapoints):
    """Return a DataFlow that yields datapoints in order."""
    return DataFromList(datapoints, shuffle=False)


def ready(flow):
    """Reset a DataFlow and return it."""
    flow.reset_state()
    return flow


def take(flow, count):
    """Return the first datapoints of a pass."""
    return list(itertools.islice(flow, count))


def same(datapoint):
    """Return the datapoint unchanged."""
    return datapoint


def broken_once():
    """Return a generator function whose first iterator raises an error at the second datapoint."""
    calls = []

    def gen():
        calls.append(1)
        yield 1
        if len(calls) == 1:
            raise KeyError("the user's")
        yield 2

    return gen


def send_second_half(flow, connection) -> None:
    """Reset a DataFlow and send the numbers of its datapoints from the fourth one on."""
    flow.reset_state()
    connection.send([int(datapoint[1]) for datapoint in flow][3:])
