"""
Embeddings of images, in which images of the same class are close to each other, even if the class was never seen.

Shows: four losses for metric learning, batches with several images of each class, a predictor after training.
Expect: 8s and 9s, which training does not see, have a recall@1 of 0.95 (pixels: 0.89). embedding.png is a plot.

    python examples/similarity_digits.py                          center loss on digits; no download
    python examples/similarity_digits.py --loss contrastive       or triplet, soft_triplet
    python examples/similarity_digits.py --data DIR               Omniglot: DIR/<alphabet>/<character>/*.png

Sources: Hadsell 2006 (contrastive), Schroff et al. 2015 (triplet), Hermans et al. 2017 (soft), Wen et al. 2016 (center).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset

LOSSES = ["center", "contrastive", "soft_triplet", "triplet"]
DEFORM = imgaug.GaussianDeform([(y, x) for y in (0.2, 0.5, 0.8) for x in (0.2, 0.5, 0.8)], (28, 28), 0.15, 3)
VARY = imgaug.Affine((0.8, 1.2), (0.12, 0.12), 20, shear=15, border=cv2.BORDER_CONSTANT)
MOVE = imgaug.Affine((0.85, 1.15), (0.1, 0.1), rotate_max_deg=15, border=cv2.BORDER_CONSTANT)


def metric_loss(x, label, kind: str):
    """Pull images of the same class together and push others apart: the mean over all pairs or triplets of a batch."""
    norms, same = tf.reduce_sum(x**2, axis=1), tf.equal(label[:, None], label[None, :])
    squares = tf.maximum(norms[:, None] + norms[None, :] - 2 * tf.matmul(x, x, transpose_b=True), 1e-6)
    if kind == "contrastive":
        return tf.reduce_mean(tf.where(same, squares, tf.nn.relu(1 - tf.sqrt(squares)) ** 2))
    is_triplet = tf.logical_and(same[:, :, None], ~same[:, None, :])  # anchor, positive, negative
    gap = tf.boolean_mask(squares[:, :, None] - squares[:, None, :], is_triplet)
    return tf.reduce_mean(tf.nn.softplus(gap) if kind == "soft_triplet" else tf.nn.relu(gap + 1))


def center_loss(x, label, num_classes: int, weight: float = 1e-3, rate: float = 0.5):
    """Classify, and pull each image to the center of its class, which moves towards its images in each step."""
    scores = FullyConnected("scores", x, num_classes)
    centers = tf.get_variable("centers", [num_classes, x.shape[1]], trainable=False, use_resource=True)
    offset, members = tf.gather(centers, label) - x, tf.one_hot(label, num_classes)
    change = tf.matmul(members, offset, transpose_a=True) / (1 + tf.reduce_sum(members, axis=0)[:, None])
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, centers.assign_sub(rate * change))
    return tf.losses.sparse_softmax_cross_entropy(label, scores) + weight * tf.nn.l2_loss(offset)


class Model(ModelDesc):
    """Three convolutions and a linear layer that returns the embedding."""

    def __init__(self, loss: str, num_classes: int, total_steps: int) -> None:
        super().__init__()
        self.loss, self.num_classes, self.total_steps = loss, num_classes, total_steps

    def inputs(self):
        return [tf.TensorSpec([None, 28, 28], name="image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu), argscope(MaxPooling, pool_size=2):
            x = LinearWrap(image[..., None] * 2 - 1).Conv2D("conv0", 32).MaxPooling("pool0")
            x = x.Conv2D("conv1", 64).MaxPooling("pool1").Conv2D("conv2", 64).MaxPooling("pool2")
        x = tf.identity(x.FullyConnected("linear", 64)(), name="embedding")
        is_center = self.loss == "center"
        cost = center_loss(x, label, self.num_classes) if is_center else metric_loss(x, label, self.loss)
        summary.add_moving_summary(tf.identity(cost, name="cost"))
        return cost + regularize_cost(".*/W", lambda w: 1e-3 * tf.nn.l2_loss(w))

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.train.cosine_decay(1e-3, get_global_step_var(), self.total_steps))


class Groups(RNGDataFlow):
    """Six images of each of eight random classes, then again, infinitely: [image, label]."""

    def __init__(self, images: np.ndarray, label: np.ndarray) -> None:
        self.images, self.label = images, label

    def __iter__(self):
        while True:
            for c in self.rng.choice(np.unique(self.label), 8, replace=False):
                for index in self.rng.choice(np.flatnonzero(self.label == c), 6):
                    yield [self.images[index], self.label[index]]


def get_data(name: str) -> tuple:
    """Return training data, with turned and mirrored images as further classes, and validation data: [images, label]."""
    if name == "digits":
        train, test = dataset.Digits("train"), dataset.Digits("test")
        images = np.concatenate([train.images, test.images])[..., 0]
        label = np.concatenate([train.labels, test.labels]).astype("int32")
        is_train = (label < 8) & (np.arange(len(label)) < len(train))
    else:
        paths = sorted(Path(name).glob("*/*/*.png"))
        label = np.unique([str(path.parent) for path in paths], return_inverse=True)[1].astype("int32")
        images = np.stack([1 - cv2.resize(cv2.imread(str(path), 0), (28, 28)) / 255 for path in paths])
        is_train = label < 0.8 * label.max()
    MOVE.reset_state()
    moved = np.stack([MOVE.augment(image) for image in images[~is_train]])  # otherwise, pixels are as good
    turned = [x[..., ::step] for x in (images, np.rot90(images, axes=(1, 2))) for step in (1, -1)]
    y = np.concatenate([label[is_train] + k * (label[is_train].max() + 1) for k in range(4)])
    return (np.concatenate([x[is_train] for x in turned]), y), (moved, label[~is_train])


def evaluate(directory: str, model: Model, images: np.ndarray, label: np.ndarray) -> float:
    """Return how many unseen images have the class of their nearest neighbor (recall@1), and draw all embeddings."""
    init = SmartInit(tf.train.latest_checkpoint(directory))
    config = PredictConfig(model, session_init=init, input_names=["image"], output_names=["embedding"])
    predictor, times = OfflinePredictor(config), range(32)  # the mean depends less on the position
    x = np.mean([predictor(np.stack(list(map(MOVE.augment, images))))[0] for _ in times], axis=0)
    is_unseen = label >= model.num_classes // 4
    axes = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2]
    plot = Figure(figsize=(4.8, 4.8)).subplots()
    plot.scatter(*(x @ axes[:2].T).T, c=label, cmap="tab10", s=np.where(is_unseen, 20, 4))  # unseen: large
    plot.figure.savefig(f"{directory}/embedding.png")
    distances = (x**2).sum(axis=1) - 2 * x @ x.T + np.diag(np.full(len(x), np.inf))  # without a constant
    return np.mean((label[distances.argmin(axis=1)] == label)[is_unseen])


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--loss", choices=LOSSES, default="center")
    parser.add_argument("--data", default="digits", help="'digits', or the directory of Omniglot")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    for name, value in (("max-epoch", 15), ("steps-per-epoch", 100), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--log-dir", default="train_log/similarity_digits")
    args = parser.parse_args(argv)
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    train, test = get_data(args.data)
    data = QueueInput(BatchData(AugmentImageComponent(Groups(*train), [DEFORM, VARY]), 48))
    steps, epochs = args.steps_per_epoch, args.max_epoch
    model = Model(args.loss, train[1].max() + 1, steps * epochs)
    config = (AutoResumeTrainConfig if args.resume else TrainConfig)(
        model=model, data=data, callbacks=[ModelSaver()], steps_per_epoch=steps, max_epoch=epochs
    )
    launch_train_with_config(config, SimpleTrainer())
    logger.info("recall@1 of unseen classes: %.4f", evaluate(args.log_dir, model, *test))


if __name__ == "__main__":
    main()
