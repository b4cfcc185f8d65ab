"""
The cost of exact random numbers: a training step with dropout, stateful and stateless.

    python benchmarks/dropout_cost.py [--steps 50] [--repetitions 9]

Each step computes a cost and its gradients. "Small" is a fully connected network with three dropouts of a few values, where
the number of operations counts. "Large" is a single dropout of a million values, where the random numbers count.
"""

from __future__ import annotations

import argparse
import logging

from _measure import measure, print_table, time_calls

from tensorpack_lite.compat import ensure_graph_mode
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import Dropout, FullyConnected
from tensorpack_lite.tfutils import random
from tensorpack_lite.tfutils.common import get_default_sess_config
from tensorpack_lite.tfutils.tower.context import TowerContext


def small(rate):
    """Return the cost of a network with three layers."""
    x = tf.ones([32, 64])
    for index in range(3):
        x = Dropout(FullyConnected(f"fc{index}", x, 64, activation=tf.nn.relu), rate=rate)
    return tf.reduce_sum(x)


def large(rate):
    """Return the cost of one dropout."""
    w = tf.get_variable("w", [1024, 1024], initializer=tf.ones_initializer(), use_resource=True)
    return tf.reduce_sum(tf.square(Dropout(w, rate=rate)))


def step(build, rate, is_exact, steps):
    """Return the microseconds per step."""

    def run_once():
        with tf.Graph().as_default():
            if is_exact:
                random.make_exact(1)
            with TowerContext("", is_training=True):
                cost = build(rate)
            train_op = tf.train.GradientDescentOptimizer(1e-9).minimize(cost, tf.train.get_or_create_global_step())
            with tf.Session(config=get_default_sess_config()) as sess:
                sess.run(tf.global_variables_initializer())
                call = sess.make_callable(train_op)
                time_calls(call, steps // 5 + 1)
                return time_calls(call, steps) * 1e6

    return run_once


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repetitions", type=int, default=9)
    args = parser.parse_args()
    ensure_graph_mode()
    logging.disable(logging.WARNING)
    for build, steps in ((small, args.steps * 20), (large, args.steps)):
        candidates = {
            "no dropout": step(build, 0.0, False, steps),
            "stateful": step(build, 0.4, False, steps),
            "exact": step(build, 0.4, True, steps),
        }
        print_table(f"Dropout, {build.__name__}", "us/step", measure(candidates, args.repetitions), "stateful")


if __name__ == "__main__":
    main()
