"""
A residual network of 6 n + 2 layers on small color images. On digits, a support vector machine is better.

Shows: residual blocks, variable scopes, a schedule for the learning rate, training on several GPUs.
Expect: an error of 0.01 to 0.03 on digits; a support vector machine has 0.008 (see cifar_convnet.py).

    python examples/resnet_cifar.py                     8 layers, on digits in random colors; no download
    python examples/resnet_cifar.py --data cifar10 -n 3 20 layers, on CIFAR-10 from $TENSORPACK_DATASET or --cifar-dir
    python examples/resnet_cifar.py --gpus 2            two towers with a batch of 64 each

Source: He, Zhang, Ren, Sun 2016, "Identity mappings in deep residual networks".
"""

from __future__ import annotations

from cifar_convnet import SIZE, classification_cost, get_parser, train_model
from common import start

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf

RATE = 0.05


def residual_block(name: str, x, filters: int, strides: int = 1):
    """Add two convolutions to the input. If the shape changes, the input is pooled and padded with zero channels."""
    shortcut = x
    new_channels = filters - x.shape.as_list()[3]
    if strides > 1:
        shortcut = AvgPooling("shortcut_" + name, x, strides)
    if new_channels:
        before = new_channels // 2
        shortcut = tf.pad(shortcut, [[0, 0], [0, 0], [0, 0], [before, new_channels - before]])
    with tf.variable_scope(name):
        x = Conv2D("conv1", BNReLU("bn1", x), filters, strides=strides)
        x = Conv2D("conv2", BNReLU("bn2", x), filters)
    return x + shortcut


class Model(ModelDesc):
    """Three stages of n blocks, with 16, 32 and 64 channels."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE, 3], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        initializer = tf.variance_scaling_initializer(2.0, mode="fan_out")
        with argscope(Conv2D, kernel_size=3, use_bias=False, kernel_initializer=initializer):
            x = Conv2D("conv0", image / 128.0 - 1, 16)
            for stage, filters in enumerate([16, 32, 64], start=1):
                for block in range(self.n):
                    strides = 2 if stage > 1 and block == 0 else 1
                    x = residual_block(f"res{stage}.{block}", x, filters, strides)
            x = GlobalAvgPooling("gap", BNReLU("bn_last", x))
        return classification_cost(FullyConnected("linear", x, 10), label, weight_decay=2e-4)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=RATE, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9)


def main(argv=None) -> None:
    parser = get_parser(__doc__, "resnet_cifar")
    parser.add_argument("-n", type=int, default=1, help="blocks per stage; the network has 6 n + 2 layers")
    args = parser.parse_args(argv)
    start(args)
    schedule = [(args.max_epoch // 2, RATE / 10), (args.max_epoch * 5 // 6, RATE / 100)]
    setter = ScheduledHyperParamSetter("learning_rate", schedule)
    train_model(Model(args.n), args, SyncMultiGPUTrainerReplicated(args.gpus), setter)


if __name__ == "__main__":
    main()
