"""
A convnet on small colour images: augmentation in other processes, BatchNorm, a schedule that follows the validation error.

Shows: imgaug, MultiProcessRunnerZMQ, BNReLU in an argscope, StatMonitorParamSetter that ends training when nothing improves,
one or several towers.
Expect: see the table in examples/README.md.

    python examples/cifar_convnet.py                    1,437 digits in random colours, on backgrounds of other ones
    python examples/cifar_convnet.py --data cifar10     CIFAR-10, from $TENSORPACK_DATASET or --cifar-dir
    python examples/cifar_convnet.py --fake             random images, for measuring speed
    python examples/cifar_convnet.py --gpus 2           two towers; where no GPU is, the CPU has both
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.summary import add_moving_summary, add_param_summary

SIZE = 32
BATCH = 64


class Model(ModelDesc):
    """Five convolutions, the size of the images halved twice; about 180,000 weights."""

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE, 3], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        is_training = get_current_tower_context().is_training
        with argscope(Conv2D, kernel_size=3, activation=BNReLU, use_bias=False):
            logits = (
                LinearWrap(image / 128.0 - 1)
                .Conv2D("conv1.1", 32)
                .Conv2D("conv1.2", 32)
                .MaxPooling("pool1", 2)
                .Conv2D("conv2.1", 64)
                .Conv2D("conv2.2", 64)
                .MaxPooling("pool2", 2)
                .Conv2D("conv3", 128)
                .GlobalAvgPooling("gap")
                .Dropout(rate=0.3 if is_training else 0.0)
                .FullyConnected("linear", 10)()
            )
        return classification_cost(logits, label)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=2e-3, trainable=False)
        tf.summary.scalar("learning_rate-summary", rate)
        return tf.train.AdamOptimizer(rate)


def classification_cost(logits, label, weight_decay: float = 1e-4):
    """Cross entropy and weight decay; `wrong` [N] has a 1 for each image that is not recognized."""
    cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
    cost = tf.reduce_mean(cost, name="cross_entropy_loss")
    wrong = tf.cast(tf.logical_not(tf.nn.in_top_k(logits, label, 1)), tf.float32, name="wrong")
    decay = tf.multiply(weight_decay, regularize_cost(".*/W", tf.nn.l2_loss), name="decay_loss")
    add_moving_summary(cost, decay, tf.reduce_mean(wrong, name="train_error"))
    add_param_summary((".*/W", ["rms"]))
    return tf.add(cost, decay, name="cost")


class ColouredDigits(RNGDataFlow):
    """Digits 32x32 in colours: the strokes have one, the ground another one; [image uint8 [32, 32, 3], label]."""

    def __init__(self, train_or_test: str) -> None:
        self.digits = dataset.Digits(train_or_test, shuffle=train_or_test == "train", size=SIZE)

    def __len__(self) -> int:
        return len(self.digits)

    def reset_state(self) -> None:
        super().reset_state()
        self.digits.reset_state()

    def __iter__(self):
        for image, label in self.digits:
            ground, stroke = self.rng.randint(0, 128, 3), self.rng.randint(128, 256, 3)
            image = ground + image[:, :, np.newaxis] * (stroke - ground)
            yield [image.astype("uint8"), np.int32(label)]


def get_raw_data(name: str, directory: str = "") -> tuple:
    """Training and validation images, one a datapoint, uint8 [32, 32, 3]."""
    if name == "digits":
        return ColouredDigits("train"), ColouredDigits("test")
    return tuple(dataset.Cifar10(which, dir=directory or None) for which in ("train", "test"))


def augment(ds: DataFlow, name: str) -> DataFlow:
    """Move each image and change its light; `name` is what it shows."""
    augmentors = [
        imgaug.CenterPaste([SIZE + 8, SIZE + 8]),
        imgaug.RandomCrop([SIZE, SIZE]),
        imgaug.Brightness(30),
        imgaug.Contrast((0.7, 1.3)),
    ]
    if name == "cifar10":
        augmentors.insert(2, imgaug.Flip(horiz=True))  # a mirrored car is a car, a mirrored 2 is no 2
    return AugmentImageComponent(ds, augmentors)


def get_data(args: argparse.Namespace) -> tuple:
    """Batches to train on, augmented in two other processes, and batches to validate on, each image once."""
    if args.fake:
        shapes, domain = [[BATCH, SIZE, SIZE, 3], [BATCH]], [(0, 256), (0, 10)]
        fake = [FakeData(shapes, n, random=False, dtype=["uint8", "int32"], domain=domain) for n in (1000, 2)]
        return tuple(fake)
    train, validation = get_raw_data(args.data, args.data_dir)
    train = BatchData(augment(train, args.data), BATCH)
    return MultiProcessRunnerZMQ(train, 2), BatchData(validation, BATCH, remainder=True)


def get_args(doc: str, name: str, max_epoch: int, argv=None) -> argparse.Namespace:
    """The options of this example and of resnet_cifar.py; sets the logger's directory and the seeds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=["digits", "cifar10"], default="digits")
    parser.add_argument("--cifar-dir", dest="data_dir", default="", help="where CIFAR-10 is, or goes to")
    parser.add_argument("--fake", action="store_true", help="random images")
    parser.add_argument("--gpus", type=int, default=1, help="how many towers")
    parser.add_argument("--max-epoch", type=int, default=max_epoch)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: the whole data")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", name))
    if name == "resnet_cifar":
        parser.add_argument("-n", type=int, default=1, help="blocks a stage: 6 n + 2 layers")
    args = parser.parse_args(argv)
    logger.set_logger_dir(args.log_dir, action="b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    return args


def get_config(model: ModelDesc, args: argparse.Namespace, callbacks: list) -> TrainConfig:
    """Everything that makes up this training; a step takes a batch for each tower."""
    train, validation = get_data(args)
    return TrainConfig(
        model=model,
        data=QueueInput(train),
        callbacks=[
            ModelSaver(),
            InferenceRunner(
                validation, [ScalarStats("cross_entropy_loss", prefix="val"), ClassificationError("wrong")]
            ),
            *callbacks,
        ],
        steps_per_epoch=args.steps_per_epoch or max(len(train) // args.gpus, 1),
        max_epoch=args.max_epoch,
    )


def lower(rate: float) -> float:
    """A third of the rate; training ends when that is tiny."""
    if rate < 1e-4:
        raise StopTraining()
    return rate / 3


def main(argv=None) -> None:
    args = get_args(__doc__, "cifar_convnet", 24, argv)

    schedule = StatMonitorParamSetter("learning_rate", "validation_error", lower, threshold=0.001, last_k=4)
    launch_train_with_config(get_config(Model(), args, [schedule]), SyncMultiGPUTrainer(args.gpus))


if __name__ == "__main__":
    main()
