"""
Cost of the meters of a DataFlow: CPU time for a datapoint and stage, with its budget.

Run: `python benchmarks/meter_cost.py`. CPU time is measured, so other programs disturb it little.
"""

from __future__ import annotations

import sys
import time

from tensorpack_lite.dataflow.base import DataFlow, ProxyDataFlow

NUM = 100_000
NUM_STAGES = 5
BUDGET_NS = 300


class Numbers(DataFlow):
    """Yields integers."""

    def __iter__(self):
        yield from range(NUM)


class Next(ProxyDataFlow):
    """Adds 1 to each datapoint of its source."""

    def __iter__(self):
        for datapoint in self.ds:
            yield datapoint + 1


def build(is_metered):
    """Return a pipeline of cheap stages. A DataFlow that was not reset has no meter."""
    flow = Numbers()
    for _ in range(NUM_STAGES - 1):
        flow = Next(flow)
    if is_metered:
        flow.reset_state()
    return flow


def cost(is_metered):
    """Return the least CPU time for a datapoint in nanoseconds."""
    seconds = []
    for _ in range(5):
        source = iter(build(is_metered))
        begin = time.thread_time()
        for _ in source:
            pass
        seconds.append(time.thread_time() - begin)
    return min(seconds) / NUM * 1e9


def main():
    """Print the cost. Return 1 if it is above the budget."""
    without, metered = cost(False), cost(True)
    of_stage = (metered - without) / NUM_STAGES
    print(f"{without:.0f} ns without, {metered:.0f} ns with meters in {NUM_STAGES} stages")
    print(f"{of_stage:.0f} ns for a datapoint and stage (budget {BUDGET_NS} ns)")
    return int(of_stage > BUDGET_NS)


if __name__ == "__main__":
    sys.exit(main())
