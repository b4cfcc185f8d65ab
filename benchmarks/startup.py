"""
Time from `python train.py` to the end of the first step, and peak memory, of this library and its peers.

    python benchmarks/startup.py [--works mnist resnet50] [--batch 16] [--peers ours keras torch jax] [--rounds 5]

Each peer trains the networks of `peers.py` with one batch that is already on the device, one process after the other. The memory
is the unique set size (USS), read every 20 ms until the end of the first block of steps. The output has medians and their intervals of 95 %
confidence; ratios are to ours.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time

import _peer_models as models
import peers
import psutil
from _turns import Child, interval


def measure(peer, case):
    """Return the seconds until the end of the first step, and the peak of the memory in MB."""
    begin = time.perf_counter()
    child = Child([os.path.abspath(peers.__file__), "--child", peer, json.dumps(vars(case))], wait=False)
    watch = Peak(child.process.pid)
    child.answer()
    seconds = time.perf_counter() - begin
    child.run()  # the first block
    peak = watch.stop()
    child.end()
    return seconds, peak


class Peak:
    """Thread that reads the memory of a process until `stop`."""

    def __init__(self, pid):
        self._process, self._done, self._bytes = psutil.Process(pid), threading.Event(), 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        while not self._done.wait(0.02):
            self._bytes = max(self._bytes, self._process.memory_full_info().uss)

    def stop(self):
        """Return the peak in MB."""
        self._done.set()
        self._thread.join()
        return self._bytes / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", default=["mnist", "resnet50"], choices=models.WORKS)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--peers", nargs="+", default=peers.available_peers(), choices=list(peers.PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print("| network, peer | seconds | / ours | MB | / ours |\n| --- | --- | --- | --- | --- |")
    for work in args.works:
        case = peers.Case(work, args.batch, "synthetic")
        found = {peer: [] for peer in args.peers}
        for _ in range(args.rounds):
            for peer in args.peers:
                found[peer].append(measure(peer, case))
        for peer, pairs in found.items():
            cells = []
            for values, ours in zip(zip(*pairs), zip(*found["ours"])):
                ratio = interval([value / base for value, base in zip(values, ours)])
                cells += [f"{interval(values)[0]:.3g}", "{:.2f} ({:.2f}-{:.2f})".format(*ratio)]
            print(f"| {work}, {peer} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
