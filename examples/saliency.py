"""
Explanations of a trained network: which pixels of an image speak for its class.

Shows: a predictor of gradients and inner tensors, in which the label is the class to explain; `tower_func` with a
model.
Expect: heat maps in saliency.png. If the most salient pixels are replaced first, the probability of the class falls
faster than in random order: the area between the curves in flipping.png is 0.17 for integrated gradients. For CAM, it
is 0.10, like that of the difference from the background, which does not look at the network, and 0.06 for the gradient.

    python examples/saliency.py                     train cifar_convnet.py for 8 epochs, if necessary, and explain it
    python examples/saliency.py --load train_log/cifar_convnet          explain the last checkpoint in a directory
    python examples/saliency.py --load train_log/mnist_convnet --model mnist_convnet --model-args 1 1 \
        --logits fc1/output --features conv3/output                     another model, and the names of its tensors

Sources: Simonyan et al. 2013, "Deep inside convolutional networks"; Sundararajan et al. 2017, "Axiomatic attribution
for deep networks"; Selvaraju et al. 2017, "Grad-CAM", which is the CAM of Zhou et al. 2016 for networks that end with
global average pooling; Samek et al. 2015, "Evaluating the visualization of what a deep neural network has learned" (the
curves).
"""

from __future__ import annotations

import argparse
import importlib
import os
from itertools import islice

import cv2
import numpy as np
from common import find_checkpoint, get_parser, print_summary
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.utils.viz import intensity_to_rgb, stack_patches

RANDOM = "random order"
CONTRAST = "difference from the background"  # for comparison: it does not look at the network
STEPS = 16  # images on the line from the background to the image
PARTS = np.linspace(0, 1, 11)  # of the pixels that are replaced


def make_predictor(model: ModelDesc, checkpoint: str, logits: str, features: str):
    """Return a function (images, classes) -> (probabilities [N, C], gradients like images, CAM [N, h, w])."""

    def build(image, label):
        model.build_graph(image, label)
        graph = tf.get_default_graph()
        scores = graph.get_tensor_by_name(logits + ":0")  # [N, C]
        layer = graph.get_tensor_by_name(features + ":0")  # [N, h, w, channels]
        # The sum over the images has the gradient of each image's own score.
        score = tf.reduce_sum(scores * tf.one_hot(label, tf.shape(scores)[1]))
        image_gradient, layer_gradient = tf.gradients(score, [image, layer])
        weights = tf.reduce_mean(layer_gradient, axis=[1, 2], keepdims=True)  # [N, 1, 1, channels]
        tf.nn.softmax(scores, name="explained/prob")
        tf.identity(image_gradient, "explained/gradient")
        tf.nn.relu(tf.reduce_sum(layer * weights, axis=3), "explained/cam")  # [N, h, w]

    names = ["explained/prob", "explained/gradient", "explained/cam"]
    config = PredictConfig(tower_func=build, input_signature=model.get_input_signature(), output_names=names)
    config.session_init = SmartInit(checkpoint)
    return OfflinePredictor(config)


def background(images: np.ndarray) -> np.ndarray:
    """Return images of one color each, the median of the pixels."""
    return np.zeros_like(images) + np.median(images, axis=(1, 2), keepdims=True).astype("float32")


def integrate_gradients(predict, images: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return maps like the images. The sum of each is the score of the image minus that of its background."""
    base = background(images)
    parts = (np.arange(STEPS, dtype="float32") + 0.5) / STEPS
    gradients = [predict(base + part * (images - base), classes)[1] for part in parts]
    return np.mean(gradients, axis=0) * (images - base)


def over_channels(maps: np.ndarray) -> np.ndarray:
    """Return the sum over the channels of [N, H, W, C]; [N, H, W] stays."""
    return maps.sum(axis=3) if maps.ndim == 4 else maps


def explain(predict, images: np.ndarray, classes: np.ndarray) -> dict:
    """Return a map [N, H, W] of each method; larger numbers are more salient."""
    _, gradients, cams = predict(images, classes)
    integrated = over_channels(integrate_gradients(predict, images, classes))
    height, width = images.shape[1:3]
    return {
        "integrated gradients": np.maximum(integrated, 0),
        "gradient": over_channels(np.abs(gradients)),
        "CAM": np.stack([cv2.resize(cam, (width, height)) for cam in cams]),
        CONTRAST: over_channels(np.abs(images - background(images))),
        RANDOM: np.random.RandomState(0).rand(*images.shape[:3]),
    }


def replace_pixels(predict, images: np.ndarray, classes: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Replace growing parts of the pixels by the background, salient ones first; return the mean probabilities."""
    base = background(images)
    saliency = maps.reshape(len(maps), -1)  # [N, pixels]
    order = np.argsort(-saliency, axis=1)  # the pixels, the most salient one first
    place = np.argsort(order, axis=1)  # of each pixel in this order
    rank = place / saliency.shape[1]  # 0 for the most salient pixel, almost 1 for the least
    rank = rank.reshape(maps.shape)  # [N, H, W]
    if images.ndim == 4:
        rank = rank[..., None]  # for all channels
    curve = []
    for part in PARTS:
        probabilities, *_ = predict(np.where(rank < part, base, images), classes)
        curve.append(probabilities[np.arange(len(classes)), classes].mean())
    return np.array(curve)


def read_images(args: argparse.Namespace, module, shape: list) -> np.ndarray:
    """Return float32 images: those of `--images`, otherwise the validation images of the model's module."""
    if args.images:
        files = [cv2.imread(path)[:, :, ::-1] for path in sorted(tf.gfile.Glob(args.images))]
        return np.array([cv2.resize(image, (shape[1], shape[0])) for image in files], "float32")
    data = module.get_raw_data("digits")[1]
    data.reset_state()
    return np.array([image for image, _ in islice(data, 100)], "float32")


def draw_maps(images: np.ndarray, maps: dict, path: str) -> None:
    """Write a picture with a row for each of the first eight images, and a column for each method."""
    images = images[:8]
    patches = []
    for k, image in enumerate(images):
        heat = [intensity_to_rgb(values[k], "jet", normalize=True) for values in maps.values()]
        rgb = np.broadcast_to(image.reshape(*image.shape[:2], -1) / images.max() * 255, heat[0].shape)
        patches += [cv2.resize(patch[:, :, ::-1], (96, 96)) for patch in (rgb, *heat)]
    sheet = stack_patches(patches, len(images), 1 + len(maps))
    titles = np.full([16, sheet.shape[1], 3], 255, "uint8")
    for column, name in enumerate(["image", *maps]):
        cv2.putText(titles, name[:16], (96 * column + 2, 12), cv2.FONT_HERSHEY_SIMPLEX, 0.32, (0, 0, 0))
    cv2.imwrite(path, np.concatenate([titles, sheet]))


def draw_curves(curves: dict, path: str) -> None:
    figure = Figure(tight_layout=True)
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.plot(PARTS, curve, label=name)
    axes.set(xlabel="replaced part of the pixels", ylabel="probability of the class")
    axes.legend()
    figure.savefig(path, dpi=75)


def find_or_train(args: argparse.Namespace, module) -> str:
    """Return the checkpoint to explain. Without --load, train the model's module, unless that has been done."""
    if args.load:
        return find_checkpoint(args.load) if os.path.isdir(args.load) else args.load
    directory = os.path.join(args.log_dir, "model")
    if not tf.train.latest_checkpoint(directory):
        options = {"max-epoch": args.max_epoch, "steps-per-epoch": args.steps_per_epoch, "seed": args.seed}
        options["log-dir"] = directory
        module.main([f"--{name}={value}" for name, value in options.items()])
    return find_checkpoint(directory)


def main(argv=None) -> None:
    parser = get_parser(__doc__, "saliency", max_epoch=8, has_resume=False)
    parser.add_argument("--load", default="", help="a checkpoint, or its directory; default: LOG_DIR/model")
    parser.add_argument("--model", default="cifar_convnet", help="a module with a class Model")
    parser.add_argument("--model-args", type=int, nargs="*", default=[], help="arguments of the class")
    parser.add_argument("--logits", default="linear/output", help="tensor of the scores [N, C]")
    parser.add_argument("--features", default="conv3/output", help="tensor [N, h, w, C] for CAM")
    parser.add_argument("--images", default="", help='files such as "*.png"; default: digits')
    args = parser.parse_args(argv)
    module = importlib.import_module(args.model)
    checkpoint = find_or_train(args, module)
    os.makedirs(args.log_dir, exist_ok=True)
    fix_rng_seed(args.seed)
    model = module.Model(*args.model_args)
    predict = make_predictor(model, checkpoint, args.logits, args.features)
    images = read_images(args, module, model.get_input_signature()[0].shape.as_list()[1:])
    probabilities, *_ = predict(images, np.zeros(len(images), "int32"))
    classes = probabilities.argmax(axis=1).astype("int32")

    maps = explain(predict, images, classes)
    curves = {name: replace_pixels(predict, images, classes, values) for name, values in maps.items()}
    inner = slice(1, -1)  # at both ends, all curves are equal
    areas = {name: np.sum(curves[RANDOM][inner] - curve[inner]) / (len(PARTS) - 1) for name, curve in curves.items()}
    draw_maps(images, maps, os.path.join(args.log_dir, "saliency.png"))
    draw_curves(curves, os.path.join(args.log_dir, "flipping.png"))
    del areas[RANDOM]
    files = {"saliency.png": "heat maps", "flipping.png": "the curves"}
    print_summary(args, "area between the curves of random order and of the most salient pixels first", areas, files)


if __name__ == "__main__":
    main()
