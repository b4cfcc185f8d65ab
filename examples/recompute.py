"""
A deep residual network whose blocks are recomputed during backpropagation, to save memory.

Shows: recompute_grad around blocks with BatchNorm and Dropout, the peak memory of a step from TensorFlow's trace.
Expect: the same accuracy with and without --recompute, and 3.3 MB instead of 12.1 MB; see docs/gpu.md.

    python examples/recompute.py                    keep all activations
    python examples/recompute.py --recompute        keep only the inputs of the blocks

Source: Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with sublinear memory cost".
"""

from __future__ import annotations

import time

import numpy as np
from common import get_parser, print_summary, start

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset

BATCH = 512
UNITS = 64


class Model(ModelDesc):
    """A residual network on the pixels of digits, with three layers per block."""

    def __init__(self, num_blocks: int, recompute: bool) -> None:
        super().__init__()
        self.num_blocks = num_blocks
        self.recompute = recompute

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        x = FullyConnected("first", image - 0.5, UNITS)
        build = recompute_grad(block) if self.recompute else block
        for k in range(self.num_blocks):
            with tf.variable_scope(f"block{k}"):
                x = build(x)
        logits = FullyConnected("linear", BNReLU("last", x), 10)
        correct = tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32)
        accuracy = tf.reduce_mean(correct, name="accuracy")
        cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
        summary.add_moving_summary(accuracy, tf.identity(cost, name="cost"))
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-3)


def block(x):
    """Return the sum of a tensor and three layers of it."""
    y = x
    for k in range(3):
        y = FullyConnected(f"fc{k}", y, UNITS, activation=BNReLU, use_bias=False)
    return x + Dropout(y, rate=0.1)


class PeakMemory(Callback):
    """Callback that reports the peak memory (MB) of the first step of each epoch, and the median time of the others (s)."""

    def _before_epoch(self):
        self.times: list = []
        self.is_first = True

    def _before_run(self, ctx):
        self.start = time.perf_counter()
        if self.is_first:
            return tf.train.SessionRunArgs([], options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
        return None

    def _after_run(self, ctx, run_values):
        if self.is_first:
            self.trainer.monitors.put_scalar("peak_memory", find_peak(run_values.run_metadata) / 1e6)
        else:
            self.times.append(time.perf_counter() - self.start)
        self.is_first = False

    def _trigger_epoch(self):
        self.trainer.monitors.put_scalar("seconds_per_step", np.median(self.times))


def find_peak(metadata) -> int:
    """Return how many bytes a run has allocated at most at the same time."""
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    records = [record for node in nodes for memory in node.memory for record in memory.allocation_records]
    records.sort(key=lambda record: record.alloc_micros)
    # alloc_bytes is negative where memory is freed
    return int(np.cumsum([record.alloc_bytes for record in records]).max())


def main(argv=None) -> None:
    parser = get_parser(__doc__, "recompute", max_epoch=5, steps_per_epoch=10, has_resume=False)
    parser.add_argument("--recompute", action="store_true", help="compute the activations of blocks twice")
    parser.add_argument("--blocks", type=int, default=12)
    args = parser.parse_args(argv)
    start(args)
    trainer = SimpleTrainer()
    config = TrainConfig(
        model=Model(args.blocks, args.recompute),
        dataflow=BatchData(RepeatedData(dataset.Digits("train", size=8), -1), BATCH),
        callbacks=[PeakMemory()],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, trainer)
    figures = {name: trainer.monitors.get_latest(name) for name in ("peak_memory", "seconds_per_step", "accuracy")}
    print_summary(args, "memory in MB, and accuracy in training", figures)


if __name__ == "__main__":
    main()
