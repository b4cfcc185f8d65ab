"""
A convolutional network on small color images. On digits, a support vector machine is better.

Shows: augmentation in a worker process, BatchNorm, a learning rate that follows the validation error, several GPUs.
Expect: an error of 0.01 to 0.02 on digits; a support vector machine, which does not see their random colors, has 0.008.
On CIFAR-10, the network has no such rival.

    python examples/cifar_convnet.py                    1,437 digits in random colors; no download
    python examples/cifar_convnet.py --data cifar10     CIFAR-10, from $TENSORPACK_DATASET or --cifar-dir
    python examples/cifar_convnet.py --gpus 2           two towers; without a GPU, both run on the CPU
"""

from __future__ import annotations

import argparse

import common
import numpy as np
from data.baselines import digits_svm_accuracy

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.summary import add_moving_summary, add_param_summary

SIZE = 32
BATCH = 64


class Model(ModelDesc):
    """Five convolutions with two poolings; about 180,000 weights."""

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE, 3], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = image / 128.0 - 1  # in [-1, 1]
        with argscope(Conv2D, kernel_size=3, activation=BNReLU, use_bias=False):
            logits = (
                LinearWrap(image)
                .Conv2D("conv1.1", 32)
                .Conv2D("conv1.2", 32)
                .MaxPooling("pool1", 2)  # [N, 16, 16, 32]
                .Conv2D("conv2.1", 64)
                .Conv2D("conv2.2", 64)
                .MaxPooling("pool2", 2)  # [N, 8, 8, 64]
                .Conv2D("conv3", 128)
                .GlobalAvgPooling("gap")  # [N, 128]
                .Dropout(rate=0.3)  # only in training
                .FullyConnected("linear", 10)()  # [N, 10]
            )
        return classification_cost(logits, label)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=2e-3, trainable=False)
        return tf.train.AdamOptimizer(rate)


def classification_cost(logits, label, weight_decay: float = 1e-4):
    """
    Return the cross entropy of logits [N, 10] and labels [N], plus weight decay.

    The tensor `wrong` [N] is 1 for each misclassified image; ClassificationError counts them.
    """
    cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    cost = tf.reduce_mean(cost, name="cross_entropy_loss")
    is_wrong = tf.logical_not(tf.nn.in_top_k(logits, label, 1))
    wrong = tf.cast(is_wrong, tf.float32, name="wrong")
    decay = tf.multiply(weight_decay, regularize_cost(".*/W", tf.nn.l2_loss), name="decay_loss")
    add_moving_summary(cost, decay, tf.reduce_mean(wrong, name="train_error"))
    add_param_summary((".*/W", ["rms"]))
    return tf.add(cost, decay, name="cost")


class RandomColors(ProxyDataFlow):
    """Color grayscale digits: a bright stroke on a dark background, [uint8 [32, 32, 3], label]."""

    def reset_state(self) -> None:
        super().reset_state()
        self.rng = get_rng(self)

    def __iter__(self):
        for image, label in self.ds:
            background = self.rng.randint(0, 128, 3)  # R, G, B
            stroke = self.rng.randint(128, 256, 3)
            brightness = image[:, :, np.newaxis]  # [32, 32, 1] in [0, 1]
            colored = background + brightness * (stroke - background)  # [32, 32, 3]
            yield [colored.astype("uint8"), np.int32(label)]


def get_raw_data(name: str, directory: str = "") -> tuple:
    """Return training and validation images, one per datapoint: [uint8 [32, 32, 3], label]."""
    if name == "digits":
        train = RandomColors(dataset.Digits("train", size=SIZE))
        validation = RandomColors(dataset.Digits("test", shuffle=False, size=SIZE))
        validation.reset_state()
        validation.rng = np.random.RandomState(0)  # the same colors in each run
        return train, DataFromList(list(validation), shuffle=False)  # and in each epoch
    train = dataset.Cifar10("train", dir=directory or None)
    return train, dataset.Cifar10("test", shuffle=False, dir=directory or None)


def augment(ds: DataFlow, name: str) -> DataFlow:
    """Shift each image randomly by up to 4 pixels, and change its brightness and contrast."""
    augmentors = [imgaug.CenterPaste([SIZE + 8, SIZE + 8]), imgaug.RandomCrop([SIZE, SIZE])]
    if name == "cifar10":
        augmentors.append(imgaug.Flip(horiz=True))  # not for digits: a mirrored 2 is not a 2
    augmentors += [imgaug.Brightness(30), imgaug.Contrast((0.7, 1.3))]
    return AugmentImageComponent(ds, augmentors)


def get_parser(doc: str | None, name: str) -> argparse.ArgumentParser:
    """Return a parser with the options of this example and of resnet_cifar.py."""
    parser = common.get_parser(doc, name, max_epoch=24, has_resume=False)
    parser.add_argument("--data", choices=["digits", "cifar10"], default="digits")
    parser.add_argument("--cifar-dir", default="", help="directory of CIFAR-10")
    parser.add_argument("--gpus", type=int, default=1, help="number of towers")
    return parser


def train_model(model: ModelDesc, args: argparse.Namespace, trainer: SingleCostTrainer, schedule: Callback) -> None:
    """Train, validate on all validation images after each epoch, and print the last error."""
    train, validation = get_raw_data(args.data, args.cifar_dir)
    # One worker process: with several, the order of the batches depends on their speed, and so does the result.
    batches = MultiProcessRunnerZMQ(BatchData(augment(train, args.data), BATCH), num_proc=1)
    measures = [ScalarStats("cross_entropy_loss", prefix="val"), ClassificationError("wrong")]
    inference = InferenceRunner(BatchData(validation, BATCH, remainder=True), measures)
    config = TrainConfig(
        model=model,
        data=QueueInput(batches),
        callbacks=[ModelSaver(), inference, schedule],
        steps_per_epoch=args.steps_per_epoch or max(len(batches) // args.gpus, 1),  # each tower takes a batch
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, trainer)
    figures = {"network": trainer.monitors.get_latest("validation_error")}
    if args.data == "digits":
        figures["support vector machine, without the colors"] = 1 - digits_svm_accuracy()
    common.print_summary(args, "error on held-out images", figures)


def lower(rate: float) -> float:
    """Return a third of the learning rate; stop training when it is tiny."""
    if rate < 1e-4:
        raise StopTraining()
    return rate / 3


def main(argv=None) -> None:
    args = get_parser(__doc__, "cifar_convnet").parse_args(argv)
    common.start(args)
    # lower the rate unless the error has decreased by more than 0.001 within the last 4 epochs
    schedule = StatMonitorParamSetter("learning_rate", "validation_error", lower, threshold=0.001, last_k=4)
    train_model(Model(), args, SyncMultiGPUTrainer(args.gpus), schedule)


if __name__ == "__main__":
    main()
