"""
A convolutional network with 1-bit weights, 2-bit activations and 6-bit gradients.

Shows: `remap_variables`, which quantizes the variables of unchanged layers; gradients defined by `tf.custom_gradient`.
Expect: an accuracy of 0.99, like the network with floats and a support vector machine, with weights that take 4,608
bytes instead of 147,456. As in the paper, the first and the last layer use floats. packed.npz has the quantized
weights, kernels.png shows those of the second layer.

    python examples/dorefa_digits.py                          1,437 digits from scikit-learn; no download
    python examples/dorefa_digits.py --bits 32,32,32          bits of weights, activations, gradients; 32: floats
    python examples/dorefa_digits.py --data svhn              SVHN, from $TENSORPACK_DATASET
    python examples/dorefa_digits.py --resume                 continue the last run in train_log/

Source: Zhou et al. 2016, "DoReFa-Net: Training low bitwidth convolutional neural networks with low bitwidth gradients".
"""

from __future__ import annotations

import os

import cv2
import numpy as np
from common import get_config_class, get_parser, print_summary, start
from data.baselines import digits_svm_accuracy

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.tfutils.varreplace import remap_variables
from tensorpack_lite.utils.viz import stack_patches

BATCH = 40  # divides 360, so that all validation batches have the same size
SHAPES = {"digits": (28, 28), "svhn": (32, 32, 3)}
QUANTIZED = ("conv1/W", "conv2/W", "conv3/W")


def round_to(x, bits: int):
    """Round numbers in [0, 1] to multiples of 1 / (2**bits - 1), unless bits = 32. The gradient passes unchanged."""
    if bits == 32:
        return x
    levels = 2.0**bits - 1
    return replace_value(x, tf.round(x * levels) / levels)


def replace_value(x, value):
    """Return a tensor with another value, whose gradient passes to x unchanged (the straight-through estimator)."""
    return x + tf.stop_gradient(value - x)


def quantize_weight(w, bits: int):
    """Return weights with 2**bits values: -E|w| and E|w| for one bit, otherwise equidistant ones in [-1, 1]."""
    if bits == 32:
        return w
    if bits == 1:
        sign = 2 * tf.cast(w >= 0, tf.float32) - 1
        return replace_value(w, sign * tf.reduce_mean(tf.abs(w)))
    w = tf.tanh(w)
    largest = tf.stop_gradient(tf.reduce_max(tf.abs(w)))
    return 2 * round_to(w / (2 * largest) + 0.5, bits) - 1


def quantize_gradient(x, bits: int):
    """Return x. Its gradient is rounded on a scale for each image, with noise that makes the mean error zero."""

    def gradient(dy):
        width = 2 * tf.reduce_max(tf.abs(dy), axis=[1, 2, 3], keepdims=True) + 1e-20  # of the scale, [N, 1, 1, 1]
        noise = tf.random_uniform(tf.shape(dy), -0.5, 0.5) / (2.0**bits - 1)
        scaled = tf.clip_by_value(dy / width + 0.5 + noise, 0.0, 1.0)
        return width * (round_to(scaled, bits) - 0.5)

    return tf.custom_gradient(lambda x: (tf.identity(x), gradient))(x)


class Model(ModelDesc):
    """Four convolutions and a linear layer. BatchNorm makes the range of the images irrelevant."""

    def __init__(self, data: str, bits: list, total_steps: int = 1) -> None:
        super().__init__()
        self.shape = SHAPES[data]
        self.bits = bits
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, *self.shape], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        weight_bits, activation_bits, gradient_bits = self.bits

        def activate(x, name=None):
            x = BatchNorm("bn", quantize_gradient(x, gradient_bits))
            return round_to(tf.clip_by_value(x, 0.0, 1.0), activation_bits)

        def quantize(variable):
            return quantize_weight(variable, weight_bits) if variable.op.name in QUANTIZED else variable

        if len(self.shape) == 2:
            image = tf.expand_dims(image, 3)
        image = BatchNorm("bn", image)
        with remap_variables(quantize), argscope(Conv2D, kernel_size=3, use_bias=False, activation=activate):
            logits = (
                LinearWrap(image)
                .Conv2D("conv0", 32)
                .MaxPooling("pool0", 2)
                .Conv2D("conv1", 32)
                .Conv2D("conv2", 32)
                .MaxPooling("pool1", 2)
                .Conv2D("conv3", 64)
                .GlobalAvgPooling("gap")
                .FullyConnected("linear", 10)()
            )
        cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
        cost = tf.identity(cost, name="cost")
        correct = tf.cast(tf.nn.in_top_k(logits, label, 1), tf.float32)
        accuracy = tf.reduce_mean(correct, name="accuracy")
        add_moving_summary(cost, accuracy)
        return cost

    def optimizer(self):
        rate = tf.train.cosine_decay(5e-3, get_global_step_var(), self.total_steps)
        return tf.train.AdamOptimizer(rate)


def pack(weights: np.ndarray, bits: int) -> np.ndarray:
    """Store equidistant weights as numbers from 0 to 2**bits - 1, eight in `bits` bytes, lowest bits first."""
    scaled = (weights / np.abs(weights).max() + 1) / 2  # in [0, 1]
    numbers = np.rint(scaled * (2**bits - 1)).astype("int64")
    binary = (numbers[..., None] >> np.arange(bits)) & 1  # [..., bits]: the bits of each number
    return np.packbits(binary.astype("uint8"))


def export(directory: str, bits: int) -> None:
    """Write the quantized weights of the last checkpoint to packed.npz, and a picture of those of conv1."""
    values = load_checkpoint_vars(tf.train.latest_checkpoint(directory))
    with tf.Graph().as_default(), tf.Session() as session:
        weights = session.run({name: quantize_weight(tf.constant(values[name]), bits) for name in QUANTIZED})
    packed: dict = {name: pack(w, bits) if bits < 32 else w for name, w in weights.items()}
    scales = {f"{name}/scale": np.abs(w).max() for name, w in weights.items()}
    np.savez(os.path.join(directory, "packed.npz"), **packed, **scales)

    kernels = weights["conv1/W"].transpose([2, 3, 0, 1])  # [input channels, output channels, 3, 3]
    kernels = kernels.reshape(-1, 3, 3, 1)
    kernels = 127.5 * (1 + kernels / scales["conv1/W/scale"])
    sheet = stack_patches(kernels, 32, 32, border=1, bgcolor=64)
    cv2.imwrite(os.path.join(directory, "kernels.png"), sheet)

    size = sum(array.nbytes for array in packed.values())
    float_size = sum(array.nbytes for array in weights.values())
    print(f"packed.npz: the quantized weights have {size} bytes; as floats, they have {float_size}")


def get_data(name: str) -> tuple:
    """Return batches [image [N, H, W] or [N, H, W, 3], label], with random shifts for training."""
    source = {"digits": dataset.Digits, "svhn": dataset.SVHNDigit}[name]
    shift = imgaug.Affine(translate_frac=(0.08, 0.08))
    train = AugmentImageComponent(source("train"), [shift])
    return BatchData(train, BATCH), BatchData(source("test", shuffle=False), BATCH)


def main(argv=None) -> None:
    parser = get_parser(__doc__, "dorefa_digits", max_epoch=40)
    parser.add_argument("--bits", default="1,2,6", type=lambda bits: [int(n) for n in bits.split(",")])
    parser.add_argument("--data", choices=sorted(SHAPES), default="digits")
    args = parser.parse_args(argv)
    start(args)
    train, validation = get_data(args.data)
    steps = args.steps_per_epoch or len(train)
    config = get_config_class(args)(
        model=Model(args.data, args.bits, steps * args.max_epoch),
        data=QueueInput(train),
        callbacks=[ModelSaver(), InferenceRunner(validation, ScalarStats("accuracy", prefix="val"))],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    export(args.log_dir, args.bits[0])
    figures = {"network": trainer.monitors.get_latest("val_accuracy")}
    if args.data == "digits":
        figures["support vector machine on pixels"] = digits_svm_accuracy()
    files = {"packed.npz": "the weights", "kernels.png": "those of the second layer"}
    print_summary(args, "accuracy on held-out images", figures, files)


if __name__ == "__main__":
    main()
