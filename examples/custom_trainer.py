"""
Two custom trainers: one in ten lines, and one that runs several operations per step.

Shows: the base class Trainer needs only `train_op`; overriding `run_step` defines what happens in a step.
Expect: both trainers fit and print y = 2.00 x + 1.00. Takes four seconds.
"""

from __future__ import annotations

import argparse

import numpy as np

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf

X = np.linspace(-1, 1, 16, dtype="float32")
Y = 2 * X + 1


def squared_error():
    """Build the graph of a line that is fitted to sixteen points; return (error, slope, intercept)."""
    slope = tf.get_variable("slope", initializer=0.0, use_resource=True)
    intercept = tf.get_variable("intercept", initializer=0.0, use_resource=True)
    return tf.reduce_mean(tf.square(slope * X + intercept - Y), name="error"), slope, intercept


class TenLineTrainer(Trainer):
    """Build a graph and set `train_op`. The base class provides the loop, callbacks, monitors and checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        error, _, _ = squared_error()
        self.train_op = tf.train.GradientDescentOptimizer(0.5).minimize(error)


class AlternatingTrainer(Trainer):
    """Update the slope twice and the intercept once per step, similar to the two networks of a GAN."""

    def __init__(self) -> None:
        super().__init__()
        error, slope, intercept = squared_error()
        descent = tf.train.GradientDescentOptimizer(0.5)
        self.slope_op = descent.minimize(error, var_list=[slope])
        self.intercept_op = descent.minimize(error, var_list=[intercept])
        # what exact resume, signals, lint and TerminateOnNaN examine
        self.step_ops = [self.slope_op, self.intercept_op]

    def run_step(self) -> None:
        self.hooked_sess.run(self.slope_op)  # also calls _before_run and _after_run of the callbacks
        self.sess.run(self.slope_op)  # the session without callbacks
        self.hooked_sess.run(self.intercept_op)


class ReportLine(Callback):
    """Report both variables to the monitors at the end of each epoch."""

    def _trigger_epoch(self) -> None:
        for name in ("slope", "intercept"):
            value = self.trainer.sess.run(self.trainer.find_tensor(name))
            self.trainer.monitors.put_scalar(name, value)


def fit_line(trainer_class, steps_per_epoch: int = 20, max_epoch: int = 3) -> dict:
    """Train in a new graph; return the last reported values."""
    with tf.Graph().as_default():
        trainer = trainer_class()
        trainer.train_with_defaults(
            callbacks=[ReportLine()],
            monitors=[ScalarPrinter()],
            steps_per_epoch=steps_per_epoch,
            max_epoch=max_epoch,
        )
        return {name: trainer.monitors.get_latest(name) for name in ("slope", "intercept")}


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--steps-per-epoch", type=int, default=20)
    parser.add_argument("--max-epoch", type=int, default=3)
    args = parser.parse_args(argv)
    for trainer_class in (TenLineTrainer, AlternatingTrainer):
        line = fit_line(trainer_class, args.steps_per_epoch, args.max_epoch)
        print(f"{trainer_class.__name__}: y = {line['slope']:.2f} x + {line['intercept']:.2f}")


if __name__ == "__main__":
    main()
