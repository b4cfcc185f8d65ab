"""
Features learned without labels. On digits, they are not worth it: the 100 labels of the test teach the network more.

Shows: a network that follows another one, a queue in a variable, two views of each image, a linear probe of features.
Expect: an accuracy of 0.91 with ten labels a class; after two steps, it is 0.88. The same network learns 0.95 from
these labels and the same changes of the images (`--scratch`), and a support vector machine on pixels has 0.95. The
method is meant for photographs. views.png shows pairs of views.

    python examples/moco_digits.py                        1,437 digits, 100 of them with labels; no download
    python examples/moco_digits.py --scratch              train on the 100 labels, for comparison
    python examples/moco_digits.py --data cifar10         CIFAR-10, from $TENSORPACK_DATASET

Source: He et al. 2020, "Momentum contrast for unsupervised visual representation learning", arXiv 1911.05722.
"""

from __future__ import annotations

import cv2
import numpy as np
from common import find_checkpoint, get_config_class, get_parser, print_summary, start
from data.baselines import svm_accuracy
from sklearn.linear_model import LogisticRegression

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.varreplace import freeze_variables
from tensorpack_lite.utils.viz import stack_patches

BATCH = 64
LABELS = 10  # of each class
KEYS = 256  # in the queue
UNITS = 32  # size of a key
MOMENTUM = 0.99  # of the network that makes the keys
TEMPERATURE = 0.1


def norm_relu(x, name=None):
    """The activation of each convolution, with the signature that layers expect."""
    return tf.nn.relu(LayerNorm("norm", x))


def encode(image):
    """Return features [N, 128], without BatchNorm, by which keys would tell their queries something."""
    with argscope(Conv2D, kernel_size=3, activation=norm_relu):
        return (
            LinearWrap(image)
            .Conv2D("conv0", 32)
            .MaxPooling("pool0", 2)  # [N, 8, 8, 32] for digits
            .Conv2D("conv1", 64)
            .MaxPooling("pool1", 2)  # [N, 4, 4, 64]
            .Conv2D("conv2", 64)
            .FullyConnected("fc", 128, activation=tf.nn.relu)()
        )


def contrast(queries, queue):
    """Return the cross entropy of finding the key of query n [N, UNITS] at position n of the queue [KEYS, UNITS]."""
    logits = tf.matmul(queries, queue, transpose_b=True) / TEMPERATURE  # [N, KEYS]
    positions = tf.range(tf.shape(queries)[0])
    return tf.losses.sparse_softmax_cross_entropy(positions, logits)


class Model(ModelDesc):
    """A network that learns to recognize another view of the same image, or digits (`is_supervised`)."""

    def __init__(self, shape: tuple, is_supervised: bool, total_steps: int = 1) -> None:
        super().__init__()
        self.shape = shape
        self.is_supervised = is_supervised
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, *self.shape], tf.float32, "image"),
            tf.TensorSpec([None, *self.shape], tf.float32, "other"),
            tf.TensorSpec([None], tf.int32, "label"),
        ]

    def build_graph(self, image, other, label):
        with tf.variable_scope("query"):
            features = encode(image)
            if self.is_supervised:
                logits = FullyConnected("linear", features, 10)
                return tf.losses.sparse_softmax_cross_entropy(label, logits)
            queries = FullyConnected("projection", features, UNITS)
            queries = tf.nn.l2_normalize(queries, axis=1)  # [N, UNITS]
        with tf.variable_scope("key"), freeze_variables(skip_collection=True):
            keys = FullyConnected("projection", encode(other), UNITS)
            keys = tf.nn.l2_normalize(keys, axis=1)

        # The newest keys are at the front of the queue; the keys of older batches are other images.
        queue = tf.get_variable("queue", [KEYS, UNITS], trainable=False, use_resource=True)
        new_queue = tf.concat([keys, queue[:-BATCH]], axis=0)
        cost = contrast(queries, new_queue)
        add_moving_summary(tf.identity(cost, name="cost"))
        with tf.control_dependencies([cost]):
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, queue.assign(new_queue))
        return cost

    def optimizer(self):
        rate = tf.train.cosine_decay(1e-3, get_global_step_var(), self.total_steps)
        return tf.train.AdamOptimizer(rate)


class FollowQuery(Callback):
    """Move the variables in "key" towards those in "query" after each step; copy them after the first one."""

    def _setup_graph(self):
        step = tf.cast(get_global_step_var(), tf.float32)
        rate = tf.maximum(1 - MOMENTUM, 1 / step)  # 1 / step: at first, the mean over all steps
        keys = tf.get_collection(tf.GraphKeys.MODEL_VARIABLES, "key/")
        queries = tf.trainable_variables("query/")
        moves = [key.assign_add(rate * (query - key)) for key, query in zip(keys, queries)]  # in the same order
        self.follow = tf.group(*moves)

    def _trigger_step(self):
        self.follow.run(session=self.trainer.sess)


def read_split(name: str, split: str) -> tuple:
    """Return images [N, H, W, C] in [0, 1] and labels [N] of the split "train" or "test"."""
    if name == "digits":
        ds = dataset.Digits(split, size=16)
        return np.array(ds.images), np.array(ds.labels)
    ds = dataset.Cifar10(split)
    return np.array(ds.images) / np.float32(255), np.array(ds.labels)


def choose_labels(images: np.ndarray, label: np.ndarray, seed: int) -> tuple:
    """Return `LABELS` random images of each class, and their labels."""
    order = np.random.RandomState(seed).permutation(len(label))
    chosen = []
    for c in range(10):
        of_class = order[label[order] == c]  # positions of the images of this class, in random order
        chosen.append(of_class[:LABELS])
    index = np.concatenate(chosen)
    return images[index], label[index]


def get_views(images: np.ndarray, label: np.ndarray) -> DataFlow:
    """Return batches with two random views of each image: [image, other, label]."""
    ds = RepeatedData(DataFromList([[image, image, c] for image, c in zip(images, label)]), -1)
    for index in (0, 1):
        move = imgaug.Affine((0.7, 1.3), (0.15, 0.15), 25, shear=15, border=cv2.BORDER_CONSTANT)
        ds = AugmentImageComponent(ds, [move], index)
    return BatchData(ds, BATCH)


def probe(directory: str, model: Model, train: tuple, test: tuple) -> float:
    """Return the test accuracy of a linear classifier on the features of the network. Splits are (images, labels)."""
    config = PredictConfig(
        model,
        session_init=SmartInit(find_checkpoint(directory)),
        input_names=["image"],
        output_names=["query/fc/output"],
    )
    predictor = OfflinePredictor(config)
    images, labels = train
    (features,) = predictor(images)  # [N, 128]
    classifier = LogisticRegression(max_iter=1000).fit(features, labels)
    images, labels = test
    (features,) = predictor(images)
    return classifier.score(features, labels)


def draw_views(data: DataFlow, path: str) -> None:
    """Write a picture with 40 pairs of views."""
    data.reset_state()
    image, other, _ = next(iter(data))
    pairs = np.concatenate([image, other], axis=2)[:40]
    cv2.imwrite(path, stack_patches(255 * pairs, 5, 8, border=4, bgcolor=128))


def main(argv=None) -> None:
    parser = get_parser(__doc__, "moco_digits", max_epoch=10, steps_per_epoch=100)
    parser.add_argument("--data", choices=["cifar10", "digits"], default="digits")
    parser.add_argument("--scratch", action="store_true", help="train on the labels only, for comparison")
    args = parser.parse_args(argv)
    start(args)
    train = read_split(args.data, "train")
    test = read_split(args.data, "test")
    images, label = train
    labelled = choose_labels(images, label, args.seed)
    if args.scratch:
        images, label = labelled
    data = get_views(images, label)
    draw_views(data, f"{args.log_dir}/views.png")
    model = Model(images.shape[1:], args.scratch, args.steps_per_epoch * args.max_epoch)
    config = get_config_class(args)(
        model=model,
        data=QueueInput(data),
        callbacks=[ModelSaver(), FollowQuery()],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())
    figures = {
        "network, trained with labels" if args.scratch else "features": probe(args.log_dir, model, labelled, test),
        "support vector machine on pixels": svm_accuracy(labelled, test),
    }
    print_summary(args, f"test accuracy with {LABELS} labels a class", figures, {"views.png": "pairs of views"})


if __name__ == "__main__":
    main()
