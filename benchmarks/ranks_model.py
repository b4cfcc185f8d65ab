"""
Model of the limits of 8, 64 and 1,024 ranks, from constants measured on one machine.

    python benchmarks/ranks_model.py [--weights 1.15e6] [--step 0.3] [--latency 0.5] [--bandwidth 400] ...
    python benchmarks/ranks_model.py --measure-channel        the cost of the ranks' channel for the chief

A ring of n ranks sends 2 (n - 1) messages in sequence, each with 1/n of the gradients' bytes. A step therefore takes

    compute + 2 (n - 1) latency + 2 (n - 1) / n * bytes / bandwidth

`scaling.py --only ring` measures latency and bandwidth between two ranks: latency is half of the time for 4 bytes, and
bandwidth follows from the additional time for 4 MB. For a slower network, pass the network's values. A checkpoint has the size of the
weights, plus the same for each slot of the optimizer. The chief writes it while the others wait. The channel is one
thread in the chief's process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import time

RANKS = [1, 2, 8, 64, 1024]
MEGABYTE = 1e6


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
        beats = 4 * n * options.beat / 1e6
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
def measure_channel(size: int, seconds: float) -> float:
    """Return the CPU time in microseconds that the chief needs for a rank's heartbeat and the answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(size)
    context = multiprocessing.get_context("fork")
    spent = context.Value("d", 0.0)
    process = context.Process(target=_serve, args=(listener, size, spent))
    process.start()
    address = listener.getsockname()
    listener.close()
    from tensorpack_lite.ranks.authentication import Credentials, authenticate
    from tensorpack_lite.ranks.hub import INTERVAL_SECONDS
    from tensorpack_lite.ranks.messages import pack

    connections = []
    for rank in range(size):
        connection = socket.create_connection(address)
        authenticate(connection, Credentials("").key)
        connection.settimeout(60.0)
        connection.sendall(pack({"type": "hello", "rank": rank, "size": size}))
        connection.recv(1 << 16)  # the first message of the hub
        connections.append(connection)
    status = {"type": "status", "status": {"kind": "step", "step": 1000, "where": "in step 1001"}}
    num_beats = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        next_time = time.monotonic() + INTERVAL_SECONDS
        for connection in connections:
            connection.sendall(pack(status))
            connection.recv(1 << 16)
            num_beats += 1
        time.sleep(max(0.0, next_time - time.monotonic()))
    for connection in connections:
        connection.sendall(pack({"type": "bye"}))
    process.join()
    for connection in connections:
        connection.close()
    return spent.value / num_beats * 1e6


def _serve(listener, size, spent) -> None:
    from tensorpack_lite.ranks.authentication import Credentials
    from tensorpack_lite.ranks.hub import RankHub

    hub = RankHub(listener, size, 60.0, Credentials(""))
    start = time.process_time()
    hub.run()
    spent.value = time.process_time() - start


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
    parser.add_argument("--beat", type=float, default=20, help="microseconds, from --measure-channel")
    parser.add_argument("--measure-channel", action="store_true")
    options = parser.parse_args()
    if options.measure_channel:
        for size in (8, 64, 256):
            print(f"{size:5d} ranks: {measure_channel(size, 5.0):.0f} us of the chief a rank and beat")
        return
    print_model(options)


if __name__ == "__main__":
    main()
