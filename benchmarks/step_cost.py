"""
Overhead of a training step: a train op that adds 1 to a variable.

    python benchmarks/step_cost.py [--steps 5000] [--repetitions 7]

The reference is one cached callable per step. The target for a Trainer with the default callbacks is at most 2.0 x the
reference.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time

from _measure import import_tensorpack, measure, print_table, time_calls

from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import Callback
from tensorpack_lite.train import Trainer
from tensorpack_lite.utils import logger


def build_train_op():
    x = tf.get_variable("x", [], initializer=tf.zeros_initializer(), use_resource=True)
    return x.assign_add(1.0, read_value=False)


class Clock(Callback):
    """Measures an epoch after a warm-up epoch, without its own two calls per epoch."""

    _chief_only = False

    def _before_epoch(self):
        self.start = time.perf_counter()

    def _after_epoch(self):
        self.seconds = time.perf_counter() - self.start


class AddOne(Trainer):
    """A minimal trainer."""

    def __init__(self):
        super().__init__()
        self.train_op = build_train_op()


def in_session(steps, make_step):
    """Return the microseconds per step in a session."""

    def run_once():
        with tf.Graph().as_default():
            train_op = build_train_op()
            with tf.Session() as sess:
                sess.run(tf.global_variables_initializer())
                step = make_step(sess, train_op)
                time_calls(step, steps // 10)
                return time_calls(step, steps) * 1e6

    return run_once


def monitored(steps):
    """Return the microseconds per step of a MonitoredSession without hooks."""

    def run_once():
        with tf.Graph().as_default():
            train_op = build_train_op()
            with tf.train.MonitoredSession() as sess:
                time_calls(lambda: sess.run(train_op), steps // 10)
                return time_calls(lambda: sess.run(train_op), steps) * 1e6

    return run_once


def trained(make_trainer, clock_class, steps, **arguments):
    """Return the microseconds per step of a trainer, without epoch callbacks and monitors."""

    def run_once():
        with tf.Graph().as_default():
            clock = clock_class()
            make_trainer().train_with_defaults(callbacks=[clock], steps_per_epoch=steps, max_epoch=2, **arguments)
            return clock.seconds / steps * 1e6

    return run_once


def peers(steps):
    tensorpack = import_tensorpack()
    if tensorpack is None:
        return {}

    class TheirAddOne(tensorpack.Trainer):
        def __init__(self):
            super().__init__()
            self.train_op = build_train_op()

    class TheirClock(Clock, tensorpack.Callback):
        pass

    return {
        "tensorpack, no callbacks": trained(TheirAddOne, TheirClock, steps, extra_callbacks=[], monitors=[]),
        "tensorpack, default callbacks": trained(TheirAddOne, TheirClock, steps),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--repetitions", type=int, default=7)
    args = parser.parse_args()
    ensure_graph_mode()
    logging.disable(logging.WARNING)
    logger.set_logger_dir(tempfile.mkdtemp(), action="d")
    steps = args.steps
    figures = measure(
        {
            "floor: make_callable": in_session(steps, lambda sess, op: sess.make_callable(op)),
            "Session.run": in_session(steps, lambda sess, op: lambda: sess.run(op)),
            "MonitoredSession, no hooks": monitored(steps),
            "Trainer, no callbacks": trained(AddOne, Clock, steps, extra_callbacks=[], monitors=[]),
            "Trainer, default callbacks": trained(AddOne, Clock, steps),
            **peers(steps),
        },
        args.repetitions,
    )
    print_table("The cost of a step", "us/step", figures, "floor: make_callable")


if __name__ == "__main__":
    main()
