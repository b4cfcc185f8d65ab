"""
Cost of the thread that notices hangs: steps/s and CPU time of a training with and without it, in turn, with its budget.

Run: `python benchmarks/hang_detector_cost.py [--seconds 5] [--rounds 8]`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import numpy as np

from tensorpack_lite import Callback, QueueInput, SimpleTrainer
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList, RepeatedData
from tensorpack_lite.diagnostics.hangs.detector import HangDetection, HangDetector

BUDGET = 0.01  # of the CPU time of a training with steps of about 2 ms
WITHOUT, WITH = "without", "with HangDetector"


class Measure(Callback):
    """Measures blocks of steps, every second one with a HangDetector."""

    def __init__(self, seconds, rounds):
        self.seconds, self.num_blocks = seconds, 2 * rounds + 2
        self.rates = {WITHOUT: [], WITH: []}
        self.cpu = {WITHOUT: [], WITH: []}
        self.detector = None

    def _before_train(self):
        self.block, self.name = -1, WITHOUT
        self._begin()

    def _begin(self):
        self.block += 1
        self.name = WITH if self.block % 2 else WITHOUT
        if self.name == WITH:
            self.detector = HangDetector(self.trainer)
            self.detector.__enter__()
        self.first, self.began, self.cpu_began = self.global_step, time.perf_counter(), time.process_time()

    def _trigger_step(self):
        now = time.perf_counter()
        if now - self.began < self.seconds:
            return
        num = self.global_step - self.first
        if self.block >= 2:  # the first pair warms up
            self.rates[self.name].append(num / (now - self.began))
            self.cpu[self.name].append((time.process_time() - self.cpu_began) / num * 1e3)
        if self.detector is not None:
            self.detector.__exit__(None, None, None)
            self.detector = None
        if self.block + 1 < self.num_blocks:
            self._begin()
        else:
            self.trainer.hooked_sess.request_stop()


def model(x):
    """Four dense layers."""
    for i in range(4):
        x = tf.matmul(x, tf.get_variable(f"w{i}", [512, 512]))
    return tf.reduce_mean(tf.square(x), name="cost")


def main():
    """Print the figures. Return 1 if the cost is above the budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a block")
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    measure, trainer = Measure(args.seconds, args.rounds), SimpleTrainer()
    trainer.extensions = [one for one in trainer.extensions if not isinstance(one, HangDetection)]
    data = RepeatedData(DataFromList([[np.ones([32, 512], "float32")]]), -1)
    trainer.setup_graph(
        [tf.TensorSpec([32, 512], tf.float32, "x")],
        QueueInput(data),
        model,
        lambda: tf.train.GradientDescentOptimizer(1e-6),
    )
    trainer.train_with_defaults(
        callbacks=[measure], monitors=[], extra_callbacks=[], steps_per_epoch=10**9, max_epoch=1
    )
    for unit, figures in (("steps/s", measure.rates), ("ms of CPU a step", measure.cpu)):
        shown = ", ".join(
            f"{name} {statistics.median(f):.3f} ({min(f):.3f}-{max(f):.3f})" for name, f in figures.items()
        )
        print(f"{unit}: {shown}")
    ratio = statistics.median(a / b for a, b in zip(measure.cpu[WITH], measure.cpu[WITHOUT])) - 1
    print(
        f"HangDetector costs {100 * ratio:+.2f} % of CPU time, median of {args.rounds} pairs (budget {100 * BUDGET:.0f} %)"
    )
    return int(ratio > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
