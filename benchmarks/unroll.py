"""
Time of a training step of an LSTM with a loop over time, relative to one whose steps follow each other in the graph.

    python benchmarks/unroll.py        # about a minute on two cores

Both graphs live in one process, and run blocks of 0.15 s in turn. The intervals contain half of the blocks. The last column is the
additional time to build the graph and run it once.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = [
    (8, 32, 35, 1),
    (1, 128, 64, 1),
    (20, 200, 35, 2),
    (64, 128, 64, 1),
    (32, 512, 35, 1),
    (64, 128, 128, 1),
]
BLOCKS = 16


def make(unroll: bool, batch: int, units: int, steps: int, layers: int) -> tuple:
    """Return a function that runs a step, and the seconds until the first one has ended."""
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.models import LSTM
    from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
    from tensorpack_lite.tfutils.tower.context import TowerContext

    start = time.perf_counter()
    with tf.Graph().as_default():
        x = tf.constant(np.random.RandomState(0).rand(batch, steps, units).astype("float32"))
        with TowerContext("", is_training=True):
            outputs, _ = LSTM("lstm", x, units, layers, unroll=unroll)
            train_op = tf.train.AdamOptimizer(1e-3).minimize(tf.reduce_mean(tf.square(outputs)))
        run = NewSessionCreator().create_session().make_callable(train_op)
        run()
    return run, time.perf_counter() - start


def time_of(run, count: int) -> float:
    """Return the seconds of a step."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def main() -> None:
    from tensorpack_lite.compat import ensure_graph_mode
    from tensorpack_lite.utils import logger

    ensure_graph_mode()
    logger.setLevel("WARNING")
    print("| sequences, units, steps, layers | unrolled, ms | loop / unrolled | the first step starts later by |")
    print("| --- | --- | --- | --- |", flush=True)
    for case in CASES:
        (loop, loop_start), (unrolled, unrolled_start) = make(False, *case), make(True, *case)
        count = max(2, int(0.15 / time_of(loop, 5)))
        rows = []
        for number in range(BLOCKS):
            pair = {run: time_of(run, count) for run in ((loop, unrolled) if number % 2 else (unrolled, loop))}
            rows.append((pair[unrolled], pair[loop] / pair[unrolled]))
        ratios = sorted(ratio for _, ratio in rows)
        quarter = BLOCKS // 4
        print(
            f"| {', '.join(map(str, case))} | {1e3 * statistics.median(ms for ms, _ in rows):.2f} | {statistics.median(ratios):.2f} "
            f"({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f}) | {unrolled_start - loop_start:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
