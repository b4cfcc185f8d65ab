"""
The cost of TerminateOnNaN(autopsy=True) in a good step, compared with autopsy=False and with no callback.

Usage: python benchmarks/autopsy.py [--rounds 15] [--cpu]

Three training runs of the same model take turns in blocks of steps, in one process. Prints the median time of a step and
the median of the differences between blocks of one round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any, Callable

import numpy as np

from tensorpack_lite import FeedInput, ModelDesc, SimpleTrainer
from tensorpack_lite.callbacks import TerminateOnNaN
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import FakeData
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.sessinit import JustCurrentSession
from tensorpack_lite.train.tower import SingleCostTrainer

BATCH = 32
CASES: dict[str, list[Any]] = {
    "no callback": [],
    "autopsy=False": [False],
    "autopsy=True": [True],
}


class Perceptron(ModelDesc):
    """8 dense layers of 256 units: 16 variables, a step of about 2 ms."""

    def inputs(self) -> list[tf.TensorSpec]:
        """Return the signature."""
        return [tf.TensorSpec([BATCH, 256], tf.float32, "x"), tf.TensorSpec([BATCH], tf.int32, "label")]

    def build_graph(self, x: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return the cost."""
        for index in range(8):
            w = tf.get_variable(f"w{index}", [256, 256], initializer=tf.glorot_uniform_initializer())
            x = tf.nn.relu(tf.matmul(x, w) + tf.get_variable(f"b{index}", [256], initializer=tf.zeros_initializer()))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=x, labels=label)
        return tf.reduce_mean(losses, name="cost")

    def optimizer(self) -> tf.train.Optimizer:
        """Return the optimizer."""
        return tf.train.MomentumOptimizer(1e-4, 0.9)


class Convolutional(Perceptron):
    """10 convolutions of 32 channels on 32x32 images, a step of about 100 ms on 2 cores."""

    def inputs(self) -> list[tf.TensorSpec]:
        """Return the signature."""
        return [tf.TensorSpec([BATCH, 32, 32, 3], tf.float32, "x"), tf.TensorSpec([BATCH], tf.int32, "label")]

    def build_graph(self, x: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        """Return the cost."""
        for index in range(10):
            shape = [3, 3, x.shape[3], 32]
            w = tf.get_variable(f"w{index}", shape, initializer=tf.glorot_uniform_initializer())
            x = tf.nn.relu(tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=tf.reduce_mean(x, [1, 2]), labels=label)
        return tf.reduce_mean(losses, name="cost")


def make_trainer(model: ModelDesc, autopsy: list[bool]) -> tuple[tf.Graph, SingleCostTrainer]:
    """Return a trainer that is ready to run steps, in its own graph."""
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(1)
        trainer = SimpleTrainer()
        signature = model.get_input_signature()
        shapes = [spec.shape.as_list() for spec in signature]
        dtypes = [spec.dtype.as_numpy_dtype for spec in signature]
        data = FakeData(shapes, size=10**9, random=False, dtype=[np.dtype(one).name for one in dtypes], domain=(0, 1))
        trainer.setup_graph(signature, FeedInput(data), model.build_graph, model.get_optimizer)
        trainer.setup_callbacks([TerminateOnNaN(autopsy=one) for one in autopsy], [])
        trainer.initialize(NewSessionCreator(), JustCurrentSession())
        with trainer.sess.as_default():
            trainer._callbacks.before_train()
    return graph, trainer


def block(graph: tf.Graph, trainer: SingleCostTrainer, steps: int, clock: Callable[[], float]) -> float:
    """Return the seconds of one step."""
    with graph.as_default(), trainer.sess.as_default():
        start = clock()
        for _ in range(steps):
            trainer.run_step()
        return (clock() - start) / steps


def measure(
    name: str, make_model: Callable[[], ModelDesc], steps: int, rounds: int, clock: Callable[[], float]
) -> None:
    """Print the line of one model."""
    trainers = {case: make_trainer(make_model(), autopsy) for case, autopsy in CASES.items()}
    for trainer in trainers.values():
        block(*trainer, steps, clock)
    times: dict[str, list[float]] = {case: [] for case in CASES}
    for index in range(rounds):
        cases = list(CASES) if index % 2 else list(CASES)[::-1]
        for case in cases:
            times[case].append(block(*trainers[case], steps, clock))
    base = times["autopsy=False"]
    for case, seconds in times.items():
        change = statistics.median(one / other - 1 for one, other in zip(seconds, base))
        sys.stdout.write(f"{name:15} {case:14} {1e3 * statistics.median(seconds):9.3f} ms {100 * change:+6.2f} %\n")


def main() -> None:
    """Measure both models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu", action="store_true", help="CPU time of the process, for a machine that is in use")
    args = parser.parse_args()
    clock = time.process_time if args.cpu else time.perf_counter
    measure("Perceptron", Perceptron, 100, args.rounds, clock)
    measure("Convolutional", Convolutional, 4, args.rounds, clock)


if __name__ == "__main__":
    main()
