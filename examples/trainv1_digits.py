"""
A script for tensorpack's first API, which needs only another import.

Shows: `tensorpack_lite.trainv1`: InputDesc, a model that sets `self.cost`, and `SomeTrainer(config).train()`.
Expect: a validation error of 0.01 to 0.02, like mnist_convnet.py. A support vector machine has 0.008.

    python examples/trainv1_digits.py                    1,797 digits from scikit-learn; no download
    python examples/trainv1_digits.py --resume           continue the last run in train_log/
"""

from __future__ import annotations

import argparse

from common import get_config_class, get_parser, print_summary, start
from data.baselines import digits_svm_accuracy

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
    return get_config_class(args)(
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
    args = get_parser(__doc__, "trainv1_digits", max_epoch=15).parse_args(argv)
    start(args)
    trainer = QueueInputTrainer(get_config(args))
    trainer.train()
    error = trainer.monitors.get_latest("validation_error")
    figures = {"network": error, "support vector machine on pixels": 1 - digits_svm_accuracy()}
    print_summary(args, "error on 360 held-out digits", figures)


if __name__ == "__main__":
    main()
