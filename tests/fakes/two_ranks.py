"""
Script that runs ranks 0 and 1 of three in one process. They wait for rank 2 and then gather values with it.

Argument: the port of the hub. The script prints "waiting" when both ranks are connected, then the growth of its peak memory in bytes, and
the results of the ranks.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tensorpack_lite.ranks.channel import RankChannel
from tensorpack_lite.ranks.connecting import RankError


def memory(name):
    """Return a value of /proc/self/status in bytes."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:")) << 10


def take_part(rank, port):
    """Gather until rank 2 sends "enough", and return the last values."""
    channel = RankChannel(rank, 3, ("127.0.0.1", port), 120.0)
    try:
        while True:
            values = channel.all_gather("numbers", rank)
            if values[2] == "enough":
                return values
    except RankError as error:
        return str(error)
    finally:
        channel.close()


def main(port):
    """Run both ranks."""
    with ThreadPoolExecutor(2) as pool:
        ranks = [pool.submit(take_part, rank, port) for rank in range(2)]
        while sum(thread.name.startswith("RankChannel") for thread in threading.enumerate()) < 4:
            time.sleep(0.01)
        before = memory("VmRSS")
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # forget the peak
        print("waiting", flush=True)
        ends = [rank.result() for rank in ranks]
    print(memory("VmHWM") - before, ends, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
