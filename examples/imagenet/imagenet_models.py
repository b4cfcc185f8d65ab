"""
Train or evaluate a well-known network: VGG-16, AlexNet, Inception-BN, ShuffleNetV2, DenseNet-121 or MobileNetV2.

Shows: layers with argscope and nested scopes, a layer of your own, weights from an `.npz` file, evaluation with a predictor.
Expect: ShuffleNetV2 on digits, enlarged to 64 x 64, has an error of about 0.02 after the last epoch.

    python examples/imagenet/imagenet_models.py                           ShuffleNetV2 on 1,797 digits; no download
    python examples/imagenet/imagenet_models.py --model mobilenet_v2      another network (see architectures.py)
    python examples/imagenet/imagenet_models.py --fake --size 224         the same random images in each step
    python examples/imagenet/imagenet_models.py --data DIR --size 224     ImageNet; DIR contains train and val
    python examples/imagenet/imagenet_models.py --load model.npz --eval   the error of these weights, without training
    python examples/imagenet/imagenet_models.py --resume                  continue the last training

`--load` takes a checkpoint or an `.npz` file whose names are those of the variables; `tensorpack-lite dump-params` writes
one. Variables with another shape, such as those of the last layer for another number of classes, keep their initial values.
Sources: AlexNet with two groups: Krizhevsky, Sutskever, Hinton 2012. VGG-16: Simonyan, Zisserman 2014, configuration D.
Inception-BN: Ioffe, Szegedy 2015, figure 5, with a plain first convolution and without auxiliary classifiers.
DenseNet-121: Huang et al. 2016. MobileNetV2: Sandler et al. 2018. ShuffleNetV2 1.0x: Ma et al. 2018.
"""

from __future__ import annotations

import argparse
import json
import os

import numpy as np
import resnet_model
from architectures import NETWORKS
from matplotlib.figure import Figure
from train import get_data as get_imagenet

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset

RATES = {"alexnet": 0.04, "vgg16": 0.04}  # without BatchNorm; those of other networks are 0.4


class Model(resnet_model.Model):
    """One of the networks, with the inputs, errors and costs of the ResNet in this folder."""

    def __init__(self, name: str, size: int, classes: int, rate: float) -> None:
        super().__init__(depth=0, size=size, total_batch=0)
        self.name, self.classes, self.rate = name, classes, rate

    def get_logits(self, x):
        return NETWORKS[self.name](x, self.classes)

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=self.rate, trainable=False)
        return tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True)


def get_data(args: argparse.Namespace, which: str) -> DataFlow:
    """Return batches [uint8 [N, size, size, 3] in RGB order, int32 [N]] of the split "train" or "val"."""
    if args.fake or args.data != "digits":
        return get_imagenet(args, which)
    digits = dataset.Digits("train" if which == "train" else "test", which == "train", args.size)
    images = MapData(digits, lambda dp: [np.tile((255 * dp[0]).astype("uint8")[:, :, None], 3), np.int32(dp[1])])
    if which == "train":  # shift by up to an eighth
        shift = [imgaug.CenterPaste([args.size * 5 // 4] * 2), imgaug.RandomCrop(args.size)]
        images = AugmentImageComponent(images, shift)
    return BatchData(images, args.batch, remainder=which != "train")


def cosine(progress: float) -> float:
    return (1 + np.cos(np.pi * progress)) / 2


def get_config(args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    data = get_data(args, "train")
    errors = [ClassificationError(f"wrong_top{k}", f"val_error_top{k}") for k in (1, 5)]
    rate = args.rate * args.batch / 256
    config_class = AutoResumeTrainConfig if args.resume else TrainConfig
    return config_class(
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
        session_init=SmartInit(args.load),
        output_names=["wrong_top1", "wrong_top5"],
    )
    wrong = np.concatenate(SimpleDatasetPredictor(config, get_data(args, "val")).get_all_result(), axis=1)
    print(f"{args.model}: top-1 error {wrong[0].mean():.4f}, top-5 error {wrong[1].mean():.4f}")


def draw_curve(log_dir: str) -> None:
    """Write curve.png: the validation error after each epoch."""
    with open(os.path.join(log_dir, "stats.json"), encoding="utf-8") as file:
        rows = [row for row in json.load(file) if "val_error_top1" in row]
    figure = Figure()
    axes = figure.subplots()
    axes.plot([row["epoch_num"] for row in rows], [row["val_error_top1"] for row in rows], "o-")
    axes.set(xlabel="epoch", ylabel="validation error")
    figure.savefig(os.path.join(log_dir, "curve.png"), dpi=75)


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--model", choices=sorted(NETWORKS), default="shufflenet_v2")
    parser.add_argument("--data", default="digits", help="digits, or the directory of ILSVRC12")
    parser.add_argument("--fake", action="store_true", help="use the same random images in each step")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0, help="learning rate for 256 images; see RATES")
    parser.add_argument("--workers", type=int, default=8, help="threads that decode images of ImageNet")
    parser.add_argument("--load", default="", help="a checkpoint or an .npz file")
    parser.add_argument("--eval", action="store_true", help="evaluate the loaded weights instead of training")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    parser.add_argument("--max-epoch", type=int, default=0, help="0: 12 on digits, otherwise 90")
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: all images; 20 with --fake")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "imagenet_models"))
    args = parser.parse_args(argv)
    args.gpus, args.classes = 1, 10 if args.data == "digits" and not args.fake else resnet_model.CLASSES
    args.max_epoch = args.max_epoch or (12 if args.data == "digits" else 90)
    args.rate = args.rate or RATES.get(args.model, 0.4)
    logger.set_logger_dir(args.log_dir, action="k" if args.resume or args.eval else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    if args.eval:
        evaluate(args)
        return
    launch_train_with_config(get_config(args), SimpleTrainer())
    draw_curve(args.log_dir)


if __name__ == "__main__":
    main()
