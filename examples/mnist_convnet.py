"""
A small convolutional network on handwritten digits. Start here, and copy this file and common.py for your own training.

Shows: layers with LinearWrap and argscope, a DataFlow with augmentation, validation and checkpoints after each epoch,
resuming.
Expect: an accuracy of 0.99 on 360 held-out digits. So few images of 8 x 8 pixels need no network: a support vector
machine is as good, and the summary at the end shows it. On MNIST, the network is better.

    python examples/mnist_convnet.py                     1,797 digits from scikit-learn; no download
    python examples/mnist_convnet.py --data mnist        MNIST, from $TENSORPACK_DATASET or --mnist-dir
    python examples/mnist_convnet.py --resume            continue the last run in train_log/

train_log/mnist_convnet/ then contains report.html, log.log, stats.json, an event file for TensorBoard, and checkpoints.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from common import get_config_class, get_parser, print_summary, start

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.summary import add_moving_summary

BATCH = 32
VALIDATION_BATCH = 40  # divides 360, 2,000 and 10,000, so that all batches have the same size
SIZE = 28  # pixels of MNIST's images; scikit-learn's digits of 8 x 8 pixels are enlarged
MAX_SHIFT = 2  # pixels


class Model(ModelDesc):
    """Four convolutions and one hidden layer; about 120,000 weights."""

    def __init__(self, steps_per_epoch: int, max_epoch: int) -> None:
        super().__init__()
        self.total_steps = steps_per_epoch * max_epoch

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = tf.expand_dims(image, 3) * 2 - 1  # [N, 28, 28, 1] in [-1, 1]
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu, filters=32):
            logits = (
                LinearWrap(image)
                .Conv2D("conv0")
                .MaxPooling("pool0", 2)  # [N, 14, 14, 32]
                .Conv2D("conv1")
                .Conv2D("conv2")
                .MaxPooling("pool1", 2)  # [N, 7, 7, 32]
                .Conv2D("conv3")
                .FullyConnected("fc0", 64, activation=tf.nn.relu)  # flattens each image
                .Dropout(rate=0.5)  # only in training
                .FullyConnected("fc1", 10)()  # [N, 10]; the last () returns the tensor
            )
        tf.nn.softmax(logits, name="prob")  # for predictors, which find it by its name

        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cross_entropy_loss")
        weight_decay = tf.multiply(1e-5, regularize_cost("fc.*/W", tf.nn.l2_loss), name="regularize_loss")
        total_cost = tf.add_n([weight_decay, cost], name="total_cost")

        correct = tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32, name="correct")
        accuracy = tf.reduce_mean(correct, name="accuracy")
        train_error = tf.reduce_mean(1 - correct, name="train_error")
        add_moving_summary(cost, weight_decay, total_cost, train_error, accuracy)
        return total_cost

    def optimizer(self):
        """Return Adam with a learning rate that decreases from 2e-3 to 0 along half a cosine."""
        rate = tf.train.cosine_decay(2e-3, get_global_step_var(), self.total_steps)
        tf.summary.scalar("learning_rate", rate)
        return tf.train.AdamOptimizer(rate)


class RandomShift(ProxyDataFlow):
    """Shift each image by up to `MAX_SHIFT` pixels in both directions; the border becomes black."""

    def reset_state(self) -> None:
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for image, label in self.ds:
            padded = np.pad(image, MAX_SHIFT, mode="constant")
            top, left = self.rng.randint(0, 2 * MAX_SHIFT + 1, size=2)  # of the part that is kept
            yield [padded[top : top + SIZE, left : left + SIZE], label]


def get_raw_data(name: str, mnist_dir: str = "") -> tuple:
    """Return training and validation images, one per datapoint: [float32 [28, 28] in [0, 1], label]."""
    if name == "digits":
        return dataset.Digits("train", size=SIZE), dataset.Digits("test", size=SIZE, shuffle=False)
    directory = mnist_dir or None  # None: $TENSORPACK_DATASET
    has_only_test = mnist_dir and not os.path.exists(os.path.join(mnist_dir, "train-images-idx3-ubyte.gz"))
    if has_only_test:
        images = list(dataset.Mnist("test", shuffle=False, dir=directory))  # 10,000 datapoints
        return DataFromList(images[:8000]), DataFromList(images[8000:], shuffle=False)
    return dataset.Mnist("train", dir=directory), dataset.Mnist("test", shuffle=False, dir=directory)


def get_data(name: str, mnist_dir: str = "") -> tuple:
    """Return training batches, shuffled and shifted, and validation batches, in order."""
    train, validation = get_raw_data(name, mnist_dir)
    return BatchData(RandomShift(train), BATCH), BatchData(validation, VALIDATION_BATCH)


def get_config(args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    train, validation = get_data(args.data, args.mnist_dir)
    steps = args.steps_per_epoch or len(train)
    return get_config_class(args)(
        model=Model(steps, args.max_epoch),
        data=QueueInput(train),
        callbacks=[
            ModelSaver(),
            InferenceRunner(validation, ScalarStats(["cross_entropy_loss", "accuracy"], prefix="val")),
            MaxSaver("val_accuracy"),
        ],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )


def report(args: argparse.Namespace, trainer: Trainer) -> None:
    """Print the accuracy, and that of a support vector machine."""
    figures = {"network": trainer.monitors.get_latest("val_accuracy")}
    if args.data == "digits":
        from data.baselines import digits_svm_accuracy  # not needed in a copy of this file

        figures["support vector machine on pixels"] = digits_svm_accuracy()
    print_summary(args, "accuracy on held-out digits", figures)


def main(argv=None, name="mnist_convnet") -> None:
    parser = get_parser(__doc__, name, max_epoch=40)
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--mnist-dir", default="", help="directory of MNIST's files; the test files suffice")
    args = parser.parse_args(argv)
    start(args)
    trainer = SimpleTrainer()
    launch_train_with_config(get_config(args), trainer)
    report(args, trainer)


if __name__ == "__main__":
    main()
