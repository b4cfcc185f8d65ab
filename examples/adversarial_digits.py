"""
A network that still recognizes digits after an attacker has changed every pixel.

Shows: gradients with respect to the image in `build_graph`, a graph that differs between training and validation.
Expect: an accuracy of about 0.92 under attack, and of 0.99 without. The attacker may change each pixel of the 8 x 8
images by 0.1, where 1 is the range from black to white, and takes 20 steps (PGD-20). Logistic regression resists 0.72
of its best attack.

    python examples/adversarial_digits.py                     train on attacked digits; no download
    python examples/adversarial_digits.py --plain             train on unchanged digits, for comparison
    python examples/adversarial_digits.py --data cifar10 --epsilon 0.03      CIFAR-10, from $TENSORPACK_DATASET

train_log/adversarial_digits/attacked.png shows rows of validation images, each above the same images after the attack.

Source: Madry et al. 2018, "Towards deep learning models resistant to adversarial attacks", arXiv 1706.06083.
"""

from __future__ import annotations

import argparse

import cv2
import numpy as np
from common import get_config_class, get_parser, print_summary, start
from data.baselines import get_digits, linear_robust_accuracy

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.utils.viz import stack_patches

BATCH = 40  # divides 360 and 10,000, so that all validation batches have the same size
MARGIN = 1.3  # training uses a stronger attack than validation
RAMP = 300  # steps in which the attack grows to full strength; otherwise, nothing is learned at first
SHAPES = {"digits": (8, 8, 1), "cifar10": (32, 32, 3)}


@auto_reuse_variable_scope
def network(image):
    """Map images [N, H, W, C] in [0, 1] to logits [N, 10]."""
    with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu):
        return (
            LinearWrap(image * 2 - 1)
            .Conv2D("conv0", 32)
            .Conv2D("conv1", 32)
            .MaxPooling("pool", 2)  # [N, H / 2, W / 2, 32]
            .Conv2D("conv2", 64)
            .FullyConnected("fc0", 128, activation=tf.nn.relu)
            .FullyConnected("fc1", 10)()
        )


def attack(classify, image, label, epsilon: float, steps: int):
    """
    Return images that maximize the loss, at a distance of at most `epsilon` (projected gradient ascent).

    Args:
        classify: a function from images [N, H, W, C] to logits [N, 10].
        image: [N, H, W, C] in [0, 1].
        label: [N].
    """
    low = tf.maximum(image - epsilon, 0.0)
    high = tf.minimum(image + epsilon, 1.0)
    attacked = low + (high - low) * tf.random_uniform(tf.shape(image))
    for _ in range(steps):
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=classify(attacked), labels=label)
        (gradient,) = tf.gradients(loss, attacked)
        step = 2.5 * epsilon / steps  # all steps together can reach both ends of the allowed range
        attacked += step * tf.sign(gradient)
        attacked = tf.stop_gradient(tf.clip_by_value(attacked, low, high))
    return attacked


class Model(ModelDesc):
    """A convolutional network that trains on attacked images and is validated on both kinds."""

    def __init__(self, data: str, epsilon: float, is_plain: bool = False, total_steps: int = 1) -> None:
        super().__init__()
        self.shape = SHAPES[data]
        self.epsilon = epsilon
        self.is_plain = is_plain
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, *self.shape], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        is_training = get_current_tower_context().is_training
        progress = tf.minimum(tf.cast(get_global_step_var(), tf.float32) / RAMP, 1.0)
        if is_training and self.is_plain:
            attacked = image
        elif is_training:
            attacked = attack(network, image, label, MARGIN * self.epsilon * progress, steps=7)
        else:
            attacked = attack(network, image, label, self.epsilon, steps=20)
        logits = network(tf.identity(attacked, name="attacked"))
        cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
        cost = tf.identity(cost, name="cost")

        correct = tf.cast(tf.nn.in_top_k(network(image), label, 1), tf.float32)
        accuracy = tf.reduce_mean(correct, name="accuracy")
        resisted = tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32)
        robust_accuracy = tf.reduce_mean(resisted, name="robust_accuracy")
        add_moving_summary(cost, accuracy, robust_accuracy)
        return cost + regularize_cost(".*/W", lambda w: 1e-4 * tf.nn.l2_loss(w))

    def optimizer(self):
        rate = tf.train.cosine_decay(2e-3, get_global_step_var(), self.total_steps)
        return tf.train.AdamOptimizer(rate)


class AttackedSheet(Inferencer):
    """Draw twenty validation images and their attacked versions."""

    def _get_fetches(self):
        return ["image", "attacked"]

    def _on_fetches(self, results):
        self.image, self.attacked = results

    def _after_inference(self):
        first, second = slice(0, 10), slice(10, 20)
        rows = np.concatenate([self.image[first], self.attacked[first], self.image[second], self.attacked[second]])
        sheet = stack_patches(rows * 255, 4, 10, border=1, bgcolor=64)
        sheet = cv2.resize(sheet, None, fx=5, fy=5, interpolation=cv2.INTER_NEAREST)
        cv2.imwrite(f"{logger.get_logger_dir()}/attacked.png", sheet)


def get_data(name: str) -> tuple:
    """Return batches for training and validation: [float32 [N, H, W, C] in [0, 1], label [N]]."""
    if name == "digits":
        train = dataset.Digits("train", size=8)
        validation = dataset.Digits("test", shuffle=False, size=8)
        white = 1
    else:
        train = dataset.Cifar10("train")
        validation = dataset.Cifar10("test", shuffle=False)
        white = 255
    move = imgaug.Affine((0.9, 1.1), (0.13, 0.13), rotate_max_deg=10, border=cv2.BORDER_CONSTANT)
    train = AugmentImageComponent(train, [move])

    def scale(image):
        return image.reshape(SHAPES[name]) / np.float32(white)

    return BatchData(MapDataComponent(train, scale), BATCH), BatchData(MapDataComponent(validation, scale), BATCH)


def report(args: argparse.Namespace, trainer: Trainer) -> None:
    """Print the accuracies under attack, and the one without."""
    figures = {"network": trainer.monitors.get_latest("val_robust_accuracy")}
    if args.data == "digits":
        digits = get_digits("train"), get_digits("test")
        figures["logistic regression"] = linear_robust_accuracy(*digits, args.epsilon)
    figures["network, without attack"] = trainer.monitors.get_latest("val_accuracy")
    files = {"attacked.png": "images, and below each what the attacker makes of it"}
    print_summary(args, "accuracy on attacked held-out images", figures, files)


def main(argv=None) -> None:
    parser = get_parser(__doc__, "adversarial_digits", max_epoch=30)
    parser.add_argument("--data", choices=sorted(SHAPES), default="digits")
    parser.add_argument("--epsilon", type=float, default=0.1, help="largest change of a pixel")
    parser.add_argument("--plain", action="store_true", help="train on unchanged images")
    args = parser.parse_args(argv)
    start(args)
    train, validation = get_data(args.data)
    steps = args.steps_per_epoch or len(train)
    stats = ScalarStats(["accuracy", "robust_accuracy"], prefix="val")
    average = EMAWeights(0.99)
    inference = InferenceRunner(validation, [stats, AttackedSheet()])
    validate = SwapEMAWeights(inference, average)  # with the averages of the weights
    config = get_config_class(args)(
        model=Model(args.data, args.epsilon, args.plain, steps * args.max_epoch),
        data=QueueInput(train),
        callbacks=[average, ModelSaver(), PeriodicTrigger(validate, every_k_epochs=min(5, args.max_epoch))],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    report(args, trainer)


if __name__ == "__main__":
    main()
