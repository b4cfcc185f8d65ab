"""
Explanations of a trained network: which pixels of an image speak for its class.

Shows: a predictor of gradients and inner tensors, in which the label is the class to explain; `tower_func` with a model.
Expect: heat maps in saliency.png. If the most salient pixels are replaced first, the probability of the class falls faster
than in random order: the area between the curves in flipping.png is above 0.1 for integrated gradients.

    python examples/saliency.py                     train cifar_convnet.py for 8 epochs, if necessary, and explain it
    python examples/saliency.py --load train_log/cifar_convnet          explain the last checkpoint in a directory
    python examples/saliency.py --load train_log/mnist_convnet --model mnist_convnet --model-args 1 1 \
        --logits fc1/output --features conv3/output                     another model, and the names of its tensors

Sources: Simonyan et al. 2013, "Deep inside convolutional networks"; Sundararajan et al. 2017, "Axiomatic attribution for
deep networks"; Selvaraju et al. 2017, "Grad-CAM", which is the CAM of Zhou et al. 2016 for networks that end with global
average pooling; Samek et al. 2015, "Evaluating the visualization of what a deep neural network has learned" (the curves).
"""

from __future__ import annotations

import argparse
import importlib
import os

import cv2
import numpy as np
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.utils.viz import intensity_to_rgb, stack_patches

STEPS = 16  # images on the line from the background to the image
PARTS = np.linspace(0, 1, 11)  # of the pixels that are replaced


def make_predictor(model: ModelDesc, checkpoint: str, logits: str, features: str):
    """Return a function (images, classes) -> (probabilities [N, C], gradients like images, CAM [N, h, w])."""

    def build(image, label):
        model.build_graph(image, label)
        graph = tf.get_default_graph()
        scores, layer = (graph.get_tensor_by_name(name + ":0") for name in (logits, features))
        score = tf.reduce_sum(scores * tf.one_hot(label, tf.shape(scores)[1]))
        image_gradient, layer_gradient = tf.gradients(score, [image, layer])
        weights = tf.reduce_mean(layer_gradient, [1, 2], keepdims=True)
        tf.nn.softmax(scores, name="explained/prob")
        tf.identity(image_gradient, "explained/gradient")
        tf.nn.relu(tf.reduce_sum(layer * weights, 3), "explained/cam")

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
    return sum(predict(base + x * (images - base), classes)[1] for x in parts) / STEPS * (images - base)


def explain(predict, images: np.ndarray, classes: np.ndarray) -> dict:
    """Return a map [N, H, W] of each method; larger numbers are more salient."""

    def over_channels(maps):  # [N, H, W] or [N, H, W, C]
        return maps.reshape(maps.shape[:3] + (-1,)).sum(axis=3)

    _, gradients, cams = predict(images, classes)
    return {
        "gradient": over_channels(np.abs(gradients)),
        "integrated gradients": np.maximum(over_channels(integrate_gradients(predict, images, classes)), 0),
        "CAM": np.stack([cv2.resize(x, images.shape[2:0:-1]) for x in cams]),
        "random order": np.random.RandomState(0).rand(*images.shape[:3]),
    }


def replace_pixels(predict, images: np.ndarray, classes: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Replace growing parts of the pixels by the background, salient ones first; return the mean probabilities."""
    rank = (-maps.reshape(len(maps), -1)).argsort(axis=1).argsort(axis=1) / maps[0].size
    rank, base = rank.reshape(maps.shape + (1,) * (images.ndim - 3)), background(images)
    probabilities = [predict(np.where(rank < part, base, images), classes)[0] for part in PARTS]
    return np.array([prob[np.arange(len(classes)), classes].mean() for prob in probabilities])


def read_images(args: argparse.Namespace, module, shape: list) -> np.ndarray:
    """Return float32 images: those of `--images`, otherwise the validation images of the model's module."""
    if args.images:
        files = (cv2.imread(path)[:, :, ::-1] for path in sorted(tf.gfile.Glob(args.images)))
        return np.array([cv2.resize(image, (shape[1], shape[0])) for image in files], "float32")
    data = module.get_raw_data("digits")[1]
    data.reset_state()
    return np.array([image for (image, _), _ in zip(data, range(100))], "float32")


def draw(images: np.ndarray, maps: dict, curves: dict, log_dir: str) -> None:
    """Write saliency.png, with a row per image and a column per method, and flipping.png."""
    patches = []
    for k, image in enumerate(images[:8]):
        heat = [intensity_to_rgb(x[k], "jet", normalize=True) for x in maps.values()]
        rgb = np.broadcast_to(image.reshape(*image.shape[:2], -1) / images.max() * 255, heat[0].shape)
        patches += [cv2.resize(x[:, :, ::-1], (64, 64)) for x in (rgb, *heat)]
    sheet = stack_patches(patches, len(images[:8]), 1 + len(maps))
    cv2.imwrite(os.path.join(log_dir, "saliency.png"), sheet)
    axes = Figure().subplots()
    axes.plot(PARTS, np.stack(list(curves.values()), axis=1))
    axes.set(xlabel="replaced part of the pixels", ylabel="probability of the class")
    axes.legend(list(curves))
    axes.figure.savefig(os.path.join(log_dir, "flipping.png"), dpi=75)


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--load", default="", help="a checkpoint, or its directory; default: LOG_DIR/model")
    parser.add_argument("--model", default="cifar_convnet", help="a module with a class Model")
    parser.add_argument("--model-args", type=int, nargs="*", default=[], help="arguments of the class")
    parser.add_argument("--logits", default="linear/output", help="tensor of the scores [N, C]")
    parser.add_argument("--features", default="conv3/output", help="tensor [N, h, w, C] for CAM")
    parser.add_argument("--images", default="", help='files such as "*.png"; default: digits')
    parser.add_argument("--max-epoch", default="8", help="of the training, if there is no checkpoint")
    parser.add_argument("--steps-per-epoch", default="0", help="0: all training images")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "saliency"))
    args = parser.parse_args(argv)
    module, load = importlib.import_module(args.model), args.load or os.path.join(args.log_dir, "model")
    if not args.load and not tf.train.latest_checkpoint(load):
        steps = ["--max-epoch", args.max_epoch, "--steps-per-epoch", args.steps_per_epoch]
        module.main([*steps, "--seed", str(args.seed), "--log-dir", load])
    os.makedirs(args.log_dir, exist_ok=True)
    fix_rng_seed(args.seed)
    model = module.Model(*args.model_args)
    predict = make_predictor(model, tf.train.latest_checkpoint(load) or load, args.logits, args.features)
    images = read_images(args, module, model.get_input_signature()[0].shape.as_list()[1:])
    classes = predict(images, np.zeros(len(images), "int32"))[0].argmax(axis=1).astype("int32")
    maps = explain(predict, images, classes)
    curves = {name: replace_pixels(predict, images, classes, m) for name, m in maps.items()}
    for name, curve in curves.items():
        below = (curves["random order"] - curve)[1:-1].sum() / (len(PARTS) - 1)  # both ends are equal
        print(f"{name}: the area below the curve of random order is {below:.3f}")
    draw(images, maps, curves, args.log_dir)


if __name__ == "__main__":
    main()
