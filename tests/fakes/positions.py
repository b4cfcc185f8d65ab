"""Cut a pipeline at a position, restore it in a new one, and compare what follows."""

from __future__ import annotations

import json

import numpy as np

END = "end of a pass"


class _Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, np.ndarray):
            return {"array": o.tolist(), "dtype": o.dtype.str}
        return super().default(o)


def through_json(state):
    """Return a state as it is after it was written to a file: JSON and arrays."""
    return from_text(text(state))


def text(state) -> str:
    """Return a state as text."""
    return json.dumps(state, cls=_Encoder, sort_keys=True)


def from_text(written):
    """Return the state that `text` wrote."""

    def decode(found):
        return np.array(found["array"], found["dtype"]) if found.keys() == {"array", "dtype"} else found

    return json.loads(written, object_hook=decode)


def as_text(datapoint) -> str:
    """Return a datapoint as text, for comparisons."""
    values = datapoint.values() if isinstance(datapoint, dict) else datapoint
    return json.dumps([np.asarray(value).tolist() for value in values], default=repr)


def passes(flow):
    """Yield the datapoints of all passes as text, and `END` after each pass."""
    while True:
        for datapoint in flow:
            yield as_text(datapoint)
        yield END


def restored(make, state):
    """Return a new pipeline that continues at a state."""
    flow = make()
    flow.set_state(through_json(state))
    flow.reset_state()
    return flow


def run(flow, num):
    """Return `num` events of a pipeline (datapoints and ends of passes), and the state before each and after the last."""
    events, states = [], [through_json(flow.get_state())]
    source = passes(flow)
    for _ in range(num):
        events.append(next(source))
        states.append(through_json(flow.get_state()))
    return events, states


def check_cuts(make, num=40, cuts=None):
    """
    Check that a pipeline that is cut and restored continues with the events that followed.

    Args:
        make: returns a new pipeline.
        num: how many events to compare.
        cuts: after how many events to cut. Default: after every one.

    Returns:
        The events.
    """
    events, states = run(restored(make, None), num)
    for cut in range(num) if cuts is None else cuts:
        flow = restored(make, states[cut])
        assert text(states[cut]) == text(flow.get_state()), f"the state after {cut} events has changed"
        again = [event for event, _ in zip(passes(flow), range(num - cut))]
        assert events[cut:] == again, f"after {cut} events"
    return events


def check_chain(make, num, steps):
    """Check a pipeline that is cut and restored again and again, each time after the next number of `steps`."""
    flow = restored(make, None)
    states = [through_json(flow.get_state())]
    events = [event for event, _ in zip(passes(flow), range(num))]
    state, position = states[0], 0
    flow = restored(make, state)
    while position < num:
        found, states = run(flow, min(steps[position % len(steps)], num - position))
        assert events[position : position + len(found)] == found, f"after {position} events"
        position += len(found)
        flow = restored(make, states[-1])
    return events
