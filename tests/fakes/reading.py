"""What DataFlows of several test files read, and what a spawned process runs: it cannot import a test file."""

from __future__ import annotations

__all__ = ["broken_once", "send_second_half"]


def broken_once():
    """A generator function that fails at its second datapoint, the first time."""
    calls = []

    def gen():
        calls.append(1)
        yield 1
        if len(calls) == 1:
            raise KeyError("the user's")
        yield 2

    return gen


def send_second_half(flow, connection) -> None:
    """Reset a DataFlow and send the numbers of its datapoints, from the fourth on."""
    flow.reset_state()
    connection.send([int(datapoint[1]) for datapoint in flow][3:])
