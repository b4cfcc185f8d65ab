"""
Budgets of training on several ranks, as one table: the place, the meeting, the start, and the hub.

    python benchmarks/ranks.py [--repetitions 5] [--small]

Run it on a machine that does nothing else. `--small` measures 100 ranks instead of 1,000, once, to test the script.

- A place is found from the variables of a SLURM step, of 2 and of 1,000 nodes.
- Ranks that meet are threads of one process, which start at the same time. The limits hold after the last rank has started.
- The start is the time to the first step of two ranks with `CollectiveTrainer`, which variables tell their place, compared with the launcher.
- The hub serves ranks that are sockets of another process, see `ranks_model.py`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from _machines import start_by_hand
from _measure import machine, measure, time_calls
from ranks_model import measure_channel
from scaling import seconds_to_first_step

from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.ranks.cluster import free_ports
from tensorpack_lite.ranks.diagnosis import interval_seconds
from tensorpack_lite.ranks.rank_info import find_rank_info

HUB_SECONDS = 10.0


def step_of_slurm(num_nodes):
    """Return the variables of a task of a SLURM step with one task on each node."""
    return {
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "1",
        "SLURM_STEP_NUM_TASKS": str(num_nodes),
        "SLURM_STEP_TASKS_PER_NODE": f"1(x{num_nodes})",
        "SLURM_STEP_NODELIST": f"node[0001-{num_nodes:04d}]",
    }


def seconds_to_meet(size):
    """Return the seconds until all ranks have met."""
    address = ("127.0.0.1", free_ports(1)[0])
    with ThreadPoolExecutor(size) as pool:
        start = time.perf_counter()
        channels = list(pool.map(lambda rank: RankChannel(rank, size, address), range(size)))
        seconds = time.perf_counter() - start
    for channel in channels:
        channel.is_closed = True  # all at once, without waiting for the threads of each
    for channel in channels[::-1]:
        channel.is_closed = False
        channel.close()
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="fewer ranks, one repetition")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    many, repetitions = (100, 1) if options.small else (1000, options.repetitions)
    rows = []

    def add(name, unit, limit, values):
        middle = statistics.median(values)
        rows.append(f"| {name} | {limit:g} {unit} | {middle:.3g} {unit} | {min(values):.3g} to {max(values):.3g} |")

    for nodes in (2, 1000):
        environ = step_of_slurm(nodes)
        values = [time_calls(lambda e=environ: find_rank_info(e), 20) * 1e3 for _ in range(repetitions)]
        add(f"`find_rank_info`, {nodes:,} nodes", "ms", 1.0, values)
    # before the meetings, whose threads would make the memory of this process, which the hub inherits, larger
    for size, limit in ((8, 0.5), (many, 10.0)):
        costs = [measure_channel(size, HUB_SECONDS) for _ in range(repetitions)]
        share = [cost["beat, us"] * size / interval_seconds(size) / 1e6 * 100 for cost in costs]
        add(f"hub of {size:,} ranks, of a core", "%", limit, share)
        add(f"hub of {size:,} ranks, memory of its process", "MB", 128, [cost["memory, MB"] for cost in costs])
    for size, limit in ((2, 0.5), (many, 5.0)):
        add(f"meeting of {size:,} ranks", "s", limit, [seconds_to_meet(size) for _ in range(repetitions)])
    options.batch = options.steps = 8
    starts = measure(
        {
            "launcher": seconds_to_first_step(2, "collective", options),
            "by hand": seconds_to_first_step(2, "collective", options, start_by_hand),
        },
        repetitions,
    )
    add("start to the first step, more than with the launcher", "s", 0.3,
        [mine - other for mine, other in zip(starts["by hand"], starts["launcher"])])  # fmt: skip
    print(f"[{machine()}, {repetitions} repetitions, {time.strftime('%Y-%m-%d')}]\n")
    print("| budget | limit | median | range |\n| --- | ---: | ---: | ---: |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
