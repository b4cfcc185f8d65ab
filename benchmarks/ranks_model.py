"""
Model of the limits of 8, 64 and 1,024 ranks, from constants measured on one machine: a step, the start, a save and a resume.

    python benchmarks/ranks_model.py [--weights 1.15e6] [--step 0.3] [--latency 0.5] [--bandwidth 400] ...
    python benchmarks/ranks_model.py --measure-channel [--machines]     CPU time of the ranks' channel in the chief's process

A ring of n ranks sends 2 (n - 1) messages in sequence, each with 1/n of the gradients' bytes. A step therefore takes

    compute + 2 (n - 1) latency + 2 (n - 1) / n * bytes / bandwidth

With `--machines`, the hub and the ranks are in two network namespaces that a bridge connects, instead of on the loopback interface. That
needs root. `scaling.py --only ring --machines` measures latency and bandwidth between two ranks in this way: latency is half of the time for 4 bytes, and
bandwidth follows from the additional time for 4 MB. For a slower network, pass the network's values. A checkpoint has the size of the
weights, plus the same for each slot of the optimizer. The chief writes it while the others wait. The channel is one
thread in the chief's process: each rank greets it at the start, compares its graph by a digest, sends its state at a save
and receives it at a resume. Variables are broadcast along a tree.
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import resource
import socket
import time
from contextlib import nullcontext

from _machines import sockets_on, two_machines

RANKS = [1, 2, 8, 64, 1024]
DIGEST_BYTES = 200  # of a message with a digest, and of the answer
MEGABYTE = 1e6
SECRET = "the secret of the benchmarks"


def rows(options):
    """Return each quantity by name, with its value for each number of ranks."""
    size = options.weights * 4 * (0.5 if options.fp16 else 1.0)
    latency, bandwidth = options.latency / 1e3, options.bandwidth * MEGABYTE
    found = {}
    for n in RANKS:
        waits, moves = 2 * (n - 1) * latency, 2 * (n - 1) / n * size / bandwidth
        step = options.step + waits + moves
        epoch = options.samples / (n * options.batch) * step
        checkpoint = options.weights * 4 * (1 + options.slots) / (options.disk * MEGABYTE)
        beats = (4 if n <= 256 else 1) * n * options.beat / 1e6
        states = n * options.state * 1e3 / MEGABYTE if n > 1 else 0.0
        depth = math.ceil(math.log2(n))
        broadcast = depth * (latency + options.weights * 4 * (1 + options.slots) / bandwidth)
        parts = {
            "the ring's latency": waits / step,
            "the gradients' bytes": moves / step,
            "the checkpoint": checkpoint / (checkpoint + epoch),
            "the chief's channel": beats,
        }
        worst = max(parts, key=lambda name: parts[name])
        values = {
            "compute, s": options.step,
            "2 (n - 1) latencies, s": waits,
            "bytes of gradients, s": moves,
            "a step, s": step,
            "efficiency of a step": options.step / step,
            "an epoch's steps, s": epoch,
            "a checkpoint, s": checkpoint,
            "efficiency with checkpoints": options.step / step * epoch / (epoch + checkpoint),
            "input, MB/s for all ranks": n * options.batch / step * options.sample_bytes / MEGABYTE,
            "the chief's channel, cores": beats,
            "start: greetings, s": n * options.greeting / 1e3 if n > 1 else 0.0,
            "start: comparison, kB": 2 * n * DIGEST_BYTES / 1e3 if n > 1 else 0.0,
            "start: variables, s": broadcast,
            "save: states, MB": states,
            "save: states, s": states * options.gather / 1e3,
            "resume: states, MB": states,
            "resume: states, s": states * options.scatter / 1e3,
            "takes most": worst if parts[worst] > 0.01 else "compute",
        }
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return found


def print_model(options) -> None:
    """Return a Markdown table with a row per quantity and a column per number of ranks."""
    print("| ranks | " + " | ".join(f"{n:,}" for n in RANKS) + " |")
    print("| --- |" + " ---: |" * len(RANKS))
    for name, values in rows(options).items():
        print(f"| {name} | " + " | ".join(_show(value) for value in values) + " |")


def _show(value) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# The channel -----------------------------------------------------------------------------------------------------------
def measure_channel(size: int, seconds: float, kilobytes: int = 16, machines=()) -> dict[str, float]:
    """
    Measure what the ranks' channel costs the chief, with ranks that are sockets in one process.

    Args:
        size: number of ranks.
        seconds: how long the ranks send heartbeats.
        kilobytes: of each rank's state in a gather and in a scatter.
        machines: the machine of the hub and that of the ranks; empty measures over the loopback interface.

    Returns:
        CPU time of the hub: ms for each greeting, us for each heartbeat and its answer, ms for each MB of a gather and a scatter;
        and the most memory of its process, in MB.
    """
    spend = functools.partial(_spend, size, machines)
    base, _, _ = spend(lambda connections: None)
    spent, most, num_beats = spend(lambda connections: _beat(connections, seconds))
    found = {"greeting, ms": base / size * 1e3, "beat, us": (spent - base) / num_beats * 1e6}
    state, megabytes = "s" * kilobytes * 1000, size * kilobytes / 1e3
    for receivers in ("chief", "each"):
        values = [state] * size if receivers == "chief" else [[state] * size, *[None] * (size - 1)]
        spent, memory, _ = spend(lambda connections, r=receivers, v=values: _exchange(connections, r, v))
        most = max(most, memory)
        name = "gather" if receivers == "chief" else "scatter"
        found[f"{name}, ms a MB"] = (spent - base) / megabytes * 1e3
    return {**found, "memory, MB": most}


def _spend(size: int, machines, work) -> tuple:
    """Return the CPU time and the memory of a hub that connects ranks, and the result of `work(connections)`, which it serves."""
    from tensorpack_lite.ranks.messages import pack
    from tensorpack_lite.ranks.open_files import allow_open_files

    allow_open_files(size)
    with sockets_on(machines[0]) if machines else nullcontext():
        listener = socket.socket()
        listener.bind((machines[0].address if machines else "127.0.0.1", 0))
    listener.listen(size)
    context = multiprocessing.get_context("fork")
    spent = context.Array("d", 2)
    process = context.Process(target=_serve, args=(listener, size, spent))
    process.start()
    address = listener.getsockname()
    listener.close()
    with sockets_on(machines[1]) if machines else nullcontext():
        connections = [_connect(address, rank, size) for rank in range(size)]
    result = work(connections)
    for connection in connections:
        connection.sendall(pack({"type": "bye"}))
    process.join()
    for connection in connections:
        connection.close()
    return spent[0], spent[1], result


def _connect(address, rank: int, size: int) -> socket.socket:
    """Return the connection of a rank that the hub has welcomed."""
    from tensorpack_lite.ranks.authentication import Credentials, authenticate
    from tensorpack_lite.ranks.messages import pack

    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    authenticate(connection, Credentials(SECRET).key)
    connection.settimeout(60.0)
    own = connection.getsockname()[0]
    connection.sendall(pack({"type": "hello", "rank": rank, "size": size, "address": own}))
    connection.recv(1 << 16)  # the first message of the hub
    return connection


def _beat(connections: list, seconds: float) -> int:
    """Send heartbeats and read the answers. Return how many."""
    from tensorpack_lite.ranks.diagnosis import interval_seconds
    from tensorpack_lite.ranks.messages import pack

    status = {"kind": "step", "step": 1000, "where": "in step 1001", "signal": None, "last_step": None}
    line, num_beats, deadline = pack({"type": "status", "status": status}), 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        next_time = time.monotonic() + interval_seconds(len(connections))
        for connection in connections:
            connection.sendall(line)
            connection.recv(1 << 16)
            num_beats += 1
        time.sleep(max(0.0, next_time - time.monotonic()))
    return num_beats


def _exchange(connections: list, receivers: str, values: list) -> None:
    """Let each rank send its value, and read until its answer has arrived."""
    from tensorpack_lite.ranks.messages import Lines, pack

    for connection, value in zip(connections, values):
        connection.sendall(pack({"type": "gather", "name": "x", "value": value, "receivers": receivers}))
    for connection in connections:
        lines, found = Lines(1 << 30), []
        while not any(b'"gathered"' in line[:30] for line in found):
            found = lines.feed(connection.recv(1 << 20))


def _serve(listener, size, spent) -> None:
    from tensorpack_lite.ranks.authentication import Credentials
    from tensorpack_lite.ranks.hub import RankHub

    hub = RankHub(listener, size, 60.0, Credentials(SECRET))
    start = time.process_time()
    hub.run()
    spent[:] = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table or measure the channel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--weights", type=float, default=1.15e6, help="how many, float32")
    parser.add_argument("--slots", type=int, default=1, help="variables of the optimizer for each weight")
    parser.add_argument("--step", type=float, default=0.3, help="seconds of compute of a rank's step")
    parser.add_argument("--batch", type=int, default=32, help="a rank's")
    parser.add_argument("--samples", type=float, default=1.28e6, help="in an epoch, for all ranks")
    parser.add_argument("--sample-bytes", type=float, default=3072, help="read for each sample")
    parser.add_argument("--latency", type=float, default=0.5, help="milliseconds of a message")
    parser.add_argument("--bandwidth", type=float, default=400, help="MB/s between two ranks")
    parser.add_argument("--fp16", action="store_true", help="gradients travel as float16")
    parser.add_argument("--disk", type=float, default=200, help="MB/s that the chief writes")
    parser.add_argument("--beat", type=float, default=25, help="microseconds, from --measure-channel")
    parser.add_argument("--greeting", type=float, default=0.2, help="milliseconds, from --measure-channel")
    parser.add_argument("--state", type=float, default=27, help="kB of a rank's state in a checkpoint")
    parser.add_argument("--gather", type=float, default=11, help="milliseconds a MB, from --measure-channel")
    parser.add_argument("--scatter", type=float, default=12, help="milliseconds a MB, from --measure-channel")
    parser.add_argument("--measure-channel", type=int, nargs="*", metavar="RANKS", help="default: 8 64 256 1000")
    parser.add_argument("--machines", action="store_true", help="measure between two network namespaces; needs root")
    options = parser.parse_args()
    if options.measure_channel is not None:
        with two_machines() if options.machines else nullcontext(()) as machines:
            for size in options.measure_channel or (8, 64, 256, 1000):
                costs = measure_channel(size, 5.0, machines=machines)
                print(
                    f"{size:5d} ranks: {', '.join(f'{name}: {value:.3g}' for name, value in costs.items())}",
                    flush=True,
                )
        return
    print_model(options)


if __name__ == "__main__":
    main()
