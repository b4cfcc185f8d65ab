"""
Train or evaluate a well-known network: VGG-16, AlexNet, Inception-BN, ShuffleNetV2, DenseNet-121 or MobileNetV2.

Shows: layers with argscope and nested scopes, a layer of your own, weights from an `.npz` file, evaluation with a
predictor.
Expect: ShuffleNetV2 on digits, enlarged to 64 x 64, has an error of about 0.02 after the last epoch. The network is
made for photographs; a support vector machine has 0.008 on these digits.

    python examples/imagenet/imagenet_models.py                           ShuffleNetV2 on 1,797 digits; no download
    python examples/imagenet/imagenet_models.py --model mobilenet_v2      another network (see architectures.py)
    python examples/imagenet/imagenet_models.py --fake --size 224         the same random images in each step
    python examples/imagenet/imagenet_models.py --data DIR --size 224     ImageNet; DIR contains train and val
    python examples/imagenet/imagenet_models.py --load model.npz --eval   the error of these weights, without training
    python examples/imagenet/imagenet_models.py --resume                  continue the last training

`--load` takes a checkpoint or an `.npz` file whose names are those of the variables; `tensorpack-lite dump-params`
writes one. Variables with another shape, such as those of the last layer for another number of classes, keep their
initial values.
Sources: AlexNet with two groups: Krizhevsky, Sutskever, Hinton 2012. VGG-16: Simonyan, Zisserman 2014, configuration D.
Inception-BN: Ioffe, Szegedy 2015, figure 5, with a plain first convolution and without auxiliary classifiers.
DenseNet-121: Huang et al. 2016. MobileNetV2: Sandler et al. 2018. ShuffleNetV2 1.0x: Ma et al. 2018.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import resnet_model
from architectures import NETWORKS
from matplotlib.figure import Figure
from train import get_data as get_imagenet

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset

sys.path.append(str(Path(__file__).resolve().parents[1]))

import common
from data.baselines import digits_svm_accuracy

RATES = {"alexnet": 0.04, "vgg16": 0.04}  # without BatchNorm; those of other networks are 0.4


class Model(resnet_model.Model):
    """One of the networks, with the inputs, errors and costs of the ResNet in this folder."""

    def __init__(self, name: str, size: int, classes: int, rate: float) -> None:
        super().__init__(depth=0, size=size, total_batch=0)
        self.name = name
        self.classes = classes
        self.rate = rate

    def get_logits(self, x):
        return NETWORKS[self.name](x, self.classes)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=self.rate, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)


def get_data(args: argparse.Namespace, which: str) -> DataFlow:
    """Return batches [uint8 [N, size, size, 3] in RGB order, int32 [N]] of the split "train" or "val"."""
    if args.fake or args.data != "digits":
        return get_imagenet(args, which)
    is_training = which == "train"
    digits = dataset.Digits("train" if is_training else "test", is_training, args.size)
    images = MapData(digits, to_color)
    if is_training:  # shift by up to an eighth
        shift = [imgaug.CenterPaste([args.size * 5 // 4] * 2), imgaug.RandomCrop(args.size)]
        images = AugmentImageComponent(images, shift)
    return BatchData(images, args.batch, remainder=not is_training)


def to_color(datapoint: list) -> list:
    """Convert a digit [H, W] in [0, 1] and its label to uint8 [H, W, 3] and int32."""
    image, label = datapoint
    return [np.tile((255 * image).astype("uint8")[:, :, None], 3), np.int32(label)]


def cosine(progress: float) -> float:
    """Return a factor that falls from 1 to 0 along half a cosine."""
    return (1 + np.cos(np.pi * progress)) / 2


def get_config(args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    data = get_data(args, "train")
    errors = [ClassificationError(f"wrong_top{k}", f"val_error_top{k}") for k in (1, 5)]
    rate = args.rate * args.batch / 256
    return common.get_config_class(args)(
        model=Model(args.model, args.size, args.classes, rate),
        data=QueueInput(data),
        callbacks=[
            ModelSaver(),
            ThroughputTracker(args.batch),
            HyperParamSetterWithFunc("learning_rate", lambda epoch, _: rate * cosine(epoch / args.max_epoch)),
            InferenceRunner(QueueInput(get_data(args, "val")), errors),
        ],
        session_init=SmartInit(args.load, ignore_mismatch=True),
        steps_per_epoch=args.steps_per_epoch or (20 if args.fake else len(data)),
        max_epoch=args.max_epoch,
    )


def evaluate(args: argparse.Namespace) -> None:
    """Print the errors of the loaded weights on all validation images."""
    config = PredictConfig(
        model=Model(args.model, args.size, args.classes, 0.0),
        session_init=SmartInit(args.load),  # without --load, the initial weights
        output_names=["wrong_top1", "wrong_top5"],
    )
    wrong = np.concatenate(SimpleDatasetPredictor(config, get_data(args, "val")).get_all_result(), axis=1)
    print(f"{args.model}: top-1 error {wrong[0].mean():.4f}, top-5 error {wrong[1].mean():.4f}")


def draw_curve(trainer: Trainer, path: str) -> None:
    """Draw the validation error after each epoch."""
    steps, errors = zip(*trainer.monitors.get_history("val_error_top1"))
    figure = Figure(tight_layout=True)
    axes = figure.subplots()
    axes.plot(steps, errors, "o-")
    axes.set(xlabel="step", ylabel="validation error")
    figure.savefig(path, dpi=75)


def get_args(argv=None) -> argparse.Namespace:
    """Parse the command line."""
    parser = common.get_parser(__doc__, "imagenet_models", max_epoch=0)
    parser.add_argument("--model", choices=sorted(NETWORKS), default="shufflenet_v2")
    parser.add_argument("--data", default="digits", help="digits, or the directory of ILSVRC12")
    parser.add_argument("--fake", action="store_true", help="use the same random images in each step")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0, help="learning rate for 256 images; see RATES")
    parser.add_argument("--workers", type=int, default=8, help="threads that decode images of ImageNet")
    parser.add_argument("--load", default="", help="a checkpoint or an .npz file")
    parser.add_argument("--eval", action="store_true", help="evaluate the loaded weights instead of training")
    args = parser.parse_args(argv)
    args.gpus = 1
    args.has_digits = args.data == "digits" and not args.fake
    args.classes = 10 if args.has_digits else resnet_model.CLASSES
    args.max_epoch = args.max_epoch or (12 if args.data == "digits" else 90)
    args.rate = args.rate or RATES.get(args.model, 0.4)
    return args


def main(argv=None) -> None:
    args = get_args(argv)
    if args.eval:
        evaluate(args)
        return
    common.start(args)
    trainer = SimpleTrainer()
    launch_train_with_config(get_config(args), trainer)
    draw_curve(trainer, f"{args.log_dir}/curve.png")
    figures = {args.model: trainer.monitors.get_latest("val_error_top1")}
    if args.has_digits:
        figures["support vector machine on pixels"] = 1 - digits_svm_accuracy()
    common.print_summary(args, "error on held-out images", figures, {"curve.png": "errors"})


if __name__ == "__main__":
    main()
