"""
Embeddings of images, in which images of the same class are close to each other, even if the class was never seen. If
one knows that the images are moved digits, and straightens them, pixels are better.

Shows: four losses for metric learning, batches with several images of each class, a predictor after training.
Expect: 8s and 9s, which training does not see, have a recall@1 of 0.95; that of pixels is 0.90, and that of pixels of
straightened images 0.98. embedding.png is a plot.

    python examples/similarity_digits.py                          center loss on digits; no download
    python examples/similarity_digits.py --loss contrastive       or triplet, soft_triplet
    python examples/similarity_digits.py --data DIR               Omniglot: DIR/<alphabet>/<character>/*.png

Sources: Hadsell 2006 (contrastive), Schroff et al. 2015 (triplet), Hermans et al. 2017 (soft), Wen et al. 2016
(center).
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from common import find_checkpoint, get_config_class, get_parser, print_summary, start
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset

LOSSES = ["center", "contrastive", "soft_triplet", "triplet"]
SIZE = 28
GROUP = 6  # images of a class in a batch
CLASSES = 8  # in a batch
ORIENTATIONS = 4  # an image for training is also mirrored and turned; each orientation is a class of its own
NUM_MOVES = 32  # an embedding is the mean over this many random moves of the image, so it depends less on the position
ANCHORS = [(y, x) for y in (0.2, 0.5, 0.8) for x in (0.2, 0.5, 0.8)]  # a grid, in parts of the size
# For training: strokes are deformed, and images are scaled, moved, rotated and slanted. MOVE is for embeddings.
DEFORM = imgaug.GaussianDeform(ANCHORS, (SIZE, SIZE), sigma=0.15, randrange=3)
VARY = imgaug.Affine((0.8, 1.2), (0.12, 0.12), rotate_max_deg=20, shear=15, border=cv2.BORDER_CONSTANT)
MOVE = imgaug.Affine((0.85, 1.15), (0.1, 0.1), rotate_max_deg=15, border=cv2.BORDER_CONSTANT)


def metric_loss(x, label, kind: str):
    """
    Pull images of the same class together and push others apart: the mean over all pairs or triplets of a batch.

    Args:
        x: embeddings [N, D].
        label: [N].
        kind: one of LOSSES but "center".
    """
    is_same = tf.equal(label[:, None], label[None, :])  # [N, N]
    # squared distances [N, N]: |a - b|^2 = |a|^2 + |b|^2 - 2 a b
    norms = tf.reduce_sum(x**2, axis=1)  # [N], squared
    products = tf.matmul(x, x, transpose_b=True)  # [N, N]
    squares = norms[:, None] + norms[None, :] - 2 * products
    squares = tf.maximum(squares, 1e-6)  # the square root has no gradient at 0
    if kind == "contrastive":
        # images of different classes should have a distance of at least 1
        apart = tf.nn.relu(1 - tf.sqrt(squares)) ** 2
        return tf.reduce_mean(tf.where(is_same, squares, apart))

    # [anchor, positive, negative]: the distance to the positive minus that to the negative, which should be below -1
    is_triplet = tf.logical_and(is_same[:, :, None], ~is_same[:, None, :])  # [N, N, N]
    gaps = squares[:, :, None] - squares[:, None, :]  # [N, N, N]
    gaps = tf.boolean_mask(gaps, is_triplet)  # [triplets]
    costs = tf.nn.softplus(gaps) if kind == "soft_triplet" else tf.nn.relu(gaps + 1)
    return tf.reduce_mean(costs)


def center_loss(x, label, num_classes: int, weight: float = 1e-3, rate: float = 0.5):
    """Classify, and pull each image to the center of its class, which moves towards its images in each step."""
    scores = FullyConnected("scores", x, num_classes)
    centers = tf.get_variable("centers", [num_classes, x.shape[1]], trainable=False, use_resource=True)
    offset = tf.gather(centers, label) - x  # [N, D]
    members = tf.one_hot(label, num_classes)  # [N, classes]
    count = tf.reduce_sum(members, axis=0)  # [classes]
    total = tf.matmul(members, offset, transpose_a=True)  # [classes, D]: the sum of the offsets of each class
    change = total / (1 + count[:, None])
    # UPDATE_OPS run with each step; the centers have no gradient
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, centers.assign_sub(rate * change))
    return tf.losses.sparse_softmax_cross_entropy(label, scores) + weight * tf.nn.l2_loss(offset)


class Model(ModelDesc):
    """Three convolutions and a linear layer that returns the embedding."""

    def __init__(self, loss: str, num_classes: int, total_steps: int) -> None:
        super().__init__()
        self.loss = loss
        self.num_classes = num_classes
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, SIZE, SIZE], tf.float32, "image"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, label):
        image = tf.expand_dims(image, 3) * 2 - 1  # [N, 28, 28, 1] in [-1, 1]
        with argscope(Conv2D, kernel_size=3, activation=tf.nn.relu), argscope(MaxPooling, pool_size=2):
            x = (
                LinearWrap(image)
                .Conv2D("conv0", 32)
                .MaxPooling("pool0")
                .Conv2D("conv1", 64)
                .MaxPooling("pool1")
                .Conv2D("conv2", 64)
                .MaxPooling("pool2")
                .FullyConnected("linear", 64)()
            )
        x = tf.identity(x, name="embedding")  # [N, 64]
        cost = self.get_cost(x, label)
        summary.add_moving_summary(tf.identity(cost, name="cost"))
        return cost + regularize_cost(".*/W", lambda w: 1e-3 * tf.nn.l2_loss(w))

    def get_cost(self, x, label):
        if self.loss == "center":
            return center_loss(x, label, self.num_classes)
        return metric_loss(x, label, self.loss)

    def optimizer(self):
        rate = tf.train.cosine_decay(1e-3, get_global_step_var(), self.total_steps)
        return tf.train.AdamOptimizer(rate)


class Groups(RNGDataFlow):
    """Images in groups, infinitely: [image, label]. CLASSES random classes have GROUP images each: a batch."""

    def __init__(self, images: np.ndarray, label: np.ndarray) -> None:
        self.images = images
        self.label = label

    def __iter__(self):
        while True:
            for c in self.rng.choice(np.unique(self.label), CLASSES, replace=False):
                members = np.flatnonzero(self.label == c)
                for index in self.rng.choice(members, GROUP):
                    yield [self.images[index], self.label[index]]


def move(images: np.ndarray, seed: int) -> np.ndarray:
    """Return images [N, 28, 28] that are scaled, rotated and moved at random; the same ones for the same seed."""
    MOVE.rng = np.random.RandomState(seed)  # instead of the stream that every augmentor has
    return np.stack([MOVE.augment(image) for image in images])


def read_digits() -> tuple:
    """
    Return images [N, 28, 28] in [0, 1], labels [N], and whether each image is for training [N].

    The digits 0 to 7 of the training split are for training, so 8 and 9 are unseen classes.
    """
    train = dataset.Digits("train", size=SIZE)
    test = dataset.Digits("test", size=SIZE)
    images = np.concatenate([train.images, test.images])[..., 0]
    label = np.concatenate([train.labels, test.labels]).astype("int32")
    is_in_train = np.arange(len(label)) < len(train)
    return images, label, is_in_train & (label < 8)


def read_characters(folder: str) -> tuple:
    """Return the same of <folder>/<alphabet>/<character>/*.png. Four fifths of the classes are for training."""
    paths = sorted(Path(folder).glob("*/*/*.png"))
    _, label = np.unique([str(path.parent) for path in paths], return_inverse=True)  # a number for each directory
    label = label.astype("int32")
    gray = [cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) for path in paths]
    images = np.stack([1 - cv2.resize(image, (SIZE, SIZE)) / 255 for image in gray])  # bright strokes
    return images, label, label < 0.8 * label.max()


def get_data(name: str) -> tuple:
    """Return (images, label) for training, with turned and mirrored images as further classes, and held-out ones."""
    images, label, is_train = read_digits() if name == "digits" else read_characters(name)
    held_out = move(images[~is_train], seed=0), label[~is_train]  # moved: otherwise, pixels are as good
    images, label = images[is_train], label[is_train]
    turned = np.rot90(images, axes=(1, 2))
    mirrored = images[:, :, ::-1]
    turned_and_mirrored = turned[:, :, ::-1]
    orientations = [images, mirrored, turned, turned_and_mirrored]
    num_classes = label.max() + 1
    labels = [label + k * num_classes for k in range(ORIENTATIONS)]
    return (np.concatenate(orientations), np.concatenate(labels)), held_out


def embed(args, model: Model, images: np.ndarray) -> np.ndarray:
    """Return the embeddings [N, 64] of images by the last checkpoint."""
    config = PredictConfig(
        model,
        session_init=SmartInit(find_checkpoint(args.log_dir)),
        input_names=["image"],
        output_names=["embedding"],
    )
    predictor = OfflinePredictor(config)
    embeddings = [predictor(move(images, seed))[0] for seed in range(NUM_MOVES)]
    return np.mean(embeddings, axis=0)


def measure_recall(features: np.ndarray, label: np.ndarray, is_unseen: np.ndarray) -> float:
    """Return how many images of unseen classes have the class of their nearest neighbor among all images (recall@1)."""
    features = features.reshape(len(features), -1)  # [N, D]
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a b, without |a|^2, which is the same in a row
    distances = np.sum(features**2, axis=1) - 2 * features @ features.T  # [N, N]
    np.fill_diagonal(distances, np.inf)  # an image is not its own neighbor
    nearest = distances.argmin(axis=1)  # [N]
    is_correct = label[nearest] == label
    return float(np.mean(is_correct[is_unseen]))


def straighten(image: np.ndarray) -> np.ndarray:
    """Return the image with its strokes in the center, upright and of a standard size, by its moments."""
    moments = cv2.moments(image)
    x = moments["m10"] / moments["m00"]  # the center of the strokes
    y = moments["m01"] / moments["m00"]
    radius = np.sqrt((moments["mu20"] + moments["mu02"]) / moments["m00"])  # of the strokes around it (RMS)
    scale = radius / 6  # the result has a radius of 6 pixels
    slant = scale * moments["mu11"] / moments["mu02"]  # to the right, per row of the result
    center = (SIZE - 1) / 2
    # from a pixel (x, y) of the result to one of the image
    row_x = [scale, slant, x - (scale + slant) * center]
    row_y = [0, scale, y - scale * center]
    matrix = np.array([row_x, row_y], "float32")
    return cv2.warpAffine(image, matrix, (SIZE, SIZE), flags=cv2.WARP_INVERSE_MAP | cv2.INTER_LINEAR)


def draw(embedding: np.ndarray, label: np.ndarray, is_unseen: np.ndarray, path: str) -> None:
    """Draw the first two principal components of embeddings; those of unseen classes are large."""
    centered = embedding - embedding.mean(axis=0)  # [N, D]
    _, _, components = np.linalg.svd(centered, full_matrices=False)
    x, y = components[:2] @ centered.T  # [N], [N]
    figure = Figure(figsize=(4.8, 4.8), tight_layout=True)
    axes = figure.subplots()
    classes = np.unique(label)
    for c in classes:
        chosen = label == c
        if is_unseen[chosen].all():
            axes.scatter(x[chosen], y[chosen], s=20, label=f"{c}, unseen")
        else:
            axes.scatter(x[chosen], y[chosen], s=4, label=str(c))
    axes.set(xlabel="first principal component", ylabel="second principal component")
    if len(classes) <= 10:
        axes.legend(fontsize="small")
    figure.savefig(path)


def report(args, model: Model, images: np.ndarray, label: np.ndarray) -> None:
    """Print the recall of the embedding and of pixels, and draw the embedding."""
    num_seen = model.num_classes // ORIENTATIONS
    is_unseen = label >= num_seen  # the classes for training have the lowest numbers
    embedding = embed(args, model, images)
    draw(embedding, label, is_unseen, f"{args.log_dir}/embedding.png")
    straight = np.stack([straighten(image) for image in images.astype("float32")])
    figures = {
        "network": measure_recall(embedding, label, is_unseen),
        "pixels": measure_recall(images, label, is_unseen),
        "pixels of straightened images": measure_recall(straight, label, is_unseen),
    }
    print_summary(args, "recall@1 of unseen classes", figures, {"embedding.png": "the embedding"})


def main(argv=None) -> None:
    parser = get_parser(__doc__, "similarity_digits", max_epoch=15, steps_per_epoch=100)
    parser.add_argument("--loss", choices=LOSSES, default="center")
    parser.add_argument("--data", default="digits", help="'digits', or the directory of Omniglot")
    args = parser.parse_args(argv)
    start(args)
    train, held_out = get_data(args.data)
    images = AugmentImageComponent(Groups(*train), [DEFORM, VARY])
    model = Model(args.loss, int(train[1].max()) + 1, args.steps_per_epoch * args.max_epoch)
    config = get_config_class(args)(
        model=model,
        data=QueueInput(BatchData(images, GROUP * CLASSES)),
        callbacks=[ModelSaver()],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())
    report(args, model, *held_out)


if __name__ == "__main__":
    main()
