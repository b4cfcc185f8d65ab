"""
A script for tensorpack's first API, which needs only another import.

Shows: `tensorpack_lite.trainv1`: InputDesc, a model that sets `self.cost`, and `SomeTrainer(config).train()`.
Expect: see the table in examples/README.md.

    python examples/trainv1_digits.py                    1,797 digits from scikit-learn; no download
    python examples/trainv1_digits.py --resume           continue the last run in train_log/
"""

from __future__ import annotations

import argparse
import os

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.trainv1 import *

SIZE = 28


class Model(ModelDesc):
    """Two convolutions and a hidden layer."""

    def _get_inputs(self):
        return [
            InputDesc(tf.float32, (None, SIZE, SIZE), "input"),
            InputDesc(tf.int32, (None,), "label"),
        ]

    def _build_graph(self, inputs):
        image, label = inputs
        image = tf.expand_dims(image, 3) * 2 - 1
        with argscope(Conv2D, kernel_shape=3, nl=tf.nn.relu, out_channel=32):
            logits = (
                LinearWrap(image)
                .Conv2D("conv0")
                .MaxPooling("pool0", 2)
                .Conv2D("conv1")
                .MaxPooling("pool1", 2)
                .FullyConnected("fc0", 64, nl=tf.nn.relu)
                .FullyConnected("fc1", 10, nl=tf.identity)()
            )
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        wrong = tf.cast(tf.logical_not(tf.nn.in_top_k(logits, label, 1)), tf.float32, name="incorrect_vector")
        decay = tf.multiply(1e-5, regularize_cost("fc.*/W", tf.nn.l2_loss), name="regularize_loss")
        self.cost = tf.add_n([decay, cost], name="total_cost")
        summary.add_moving_summary(cost, tf.reduce_mean(wrong, name="train_error"), self.cost)

    def _get_optimizer(self):
        lr = tf.get_variable("learning_rate", initializer=1e-3, trainable=False)
        return tf.train.AdamOptimizer(lr)


def get_config(args: argparse.Namespace) -> TrainConfig:
    train = BatchData(dataset.Digits("train", size=SIZE), 32)
    test = BatchData(dataset.Digits("test", size=SIZE, shuffle=False), 40)
    config_class = AutoResumeTrainConfig if args.resume else TrainConfig
    return config_class(
        dataflow=train,
        model=Model(),
        callbacks=[
            ModelSaver(),
            InferenceRunner(test, [ScalarStats("cross_entropy_loss"), ClassificationError()]),
            ScheduledHyperParamSetter("learning_rate", [(8, 3e-4), (12, 1e-4)]),
        ],
        steps_per_epoch=args.steps_per_epoch or len(train),
        max_epoch=args.max_epoch,
    )


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    parser.add_argument("--max-epoch", type=int, default=15)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: all training images")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "trainv1_digits"))
    args = parser.parse_args(argv)

    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    QueueInputTrainer(get_config(args)).train()


if __name__ == "__main__":
    main()
