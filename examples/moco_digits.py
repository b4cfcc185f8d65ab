"""
Features learned without labels, which then need only ten labels a class to recognize digits.

Shows: a network that follows another one, a queue in a variable, two views of each image, a linear probe of features.
Expect: an accuracy of 0.91 with 100 labels, which is a failure: the same network learns 0.95 from these labels and the same
changes of the images (`--scratch`), and 0.92 is reached with pixels. views.png shows pairs of views.

    python examples/moco_digits.py                        1,437 digits, 100 of them with labels; no download
    python examples/moco_digits.py --scratch              train on the 100 labels, for comparison
    python examples/moco_digits.py --data cifar10         CIFAR-10, from $TENSORPACK_DATASET

Source: He et al. 2020, "Momentum contrast for unsupervised visual representation learning", arXiv 1911.05722.
"""

from __future__ import annotations

import argparse

import cv2
import numpy as np
from sklearn.linear_model import LogisticRegression

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.dataflow import dataset
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.tfutils.summary import add_moving_summary
from tensorpack_lite.tfutils.varreplace import freeze_variables
from tensorpack_lite.utils.viz import stack_patches

BATCH, LABELS = 64, 10  # images in a step, labels of each class
KEYS, UNITS, MOMENTUM, TEMPERATURE = 256, 32, 0.99, 0.1  # UNITS: size of a key


def encode(image):
    """Return features [N, 128], without BatchNorm, by which keys would tell their queries something."""
    with argscope(Conv2D, kernel_size=3, activation=lambda x, name=None: tf.nn.relu(LayerNorm("norm", x))):
        x = LinearWrap(image).Conv2D("conv0", 32).MaxPooling("pool0", 2).Conv2D("conv1", 64)
        x = x.MaxPooling("pool1", 2).Conv2D("conv2", 64)()
    return FullyConnected("fc", x, 128, activation=tf.nn.relu)


def contrast(queries, queue):
    """Return the cross entropy of finding the key of query n at position n of the queue."""
    logits = tf.matmul(queries, queue, transpose_b=True) / TEMPERATURE
    return tf.losses.sparse_softmax_cross_entropy(tf.range(tf.shape(queries)[0]), logits)


class Model(ModelDesc):
    """A network that learns to recognize another view of the same image, or digits (`is_supervised`)."""

    def __init__(self, shape: tuple, is_supervised: bool, total_steps: int = 1) -> None:
        super().__init__()
        self.shape, self.is_supervised, self.total_steps = shape, is_supervised, total_steps

    def inputs(self):
        images = [tf.TensorSpec([None, *self.shape], name=name) for name in ("image", "other")]
        return [*images, tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, other, label):
        with tf.variable_scope("query"):
            features = encode(image)
            if self.is_supervised:
                logits = FullyConnected("linear", features, 10)
                return tf.losses.sparse_softmax_cross_entropy(label, logits)
            queries = tf.nn.l2_normalize(FullyConnected("projection", features, UNITS), axis=1)
        with tf.variable_scope("key"), freeze_variables(skip_collection=True):
            keys = tf.nn.l2_normalize(FullyConnected("projection", encode(other), UNITS), axis=1)
        queue = tf.get_variable("queue", [KEYS, UNITS], trainable=False, use_resource=True)
        newest = tf.concat([keys, queue[:-BATCH]], axis=0)
        cost = contrast(queries, newest)
        add_moving_summary(tf.identity(cost, name="cost"))
        with tf.control_dependencies([cost]):
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, queue.assign(newest))
        return cost

    def optimizer(self):
        return tf.train.AdamOptimizer(tf.train.cosine_decay(1e-3, get_global_step_var(), self.total_steps))


class FollowQuery(Callback):
    """Move the variables in "key" towards those in "query" after each step; copy them after the first one."""

    def _setup_graph(self):
        rate = tf.maximum(1 - MOMENTUM, 1 / tf.cast(get_global_step_var(), tf.float32))
        keys = tf.get_collection(tf.GraphKeys.MODEL_VARIABLES, "key/")
        queries = tf.trainable_variables("query/")
        self.follow = tf.group(*[key.assign_add(rate * (query - key)) for key, query in zip(keys, queries)])

    def _trigger_step(self):
        self.follow.run(session=self.trainer.sess)


def get_data(name: str) -> tuple:
    """Return images [N, H, W, C] in [0, 1] and labels [N] for training and testing."""
    names = ("train", "test")
    splits = [dataset.Digits(x, size=16) if name == "digits" else dataset.Cifar10(x) for x in names]
    white = np.float32(1 if name == "digits" else 255)
    return tuple((np.array(ds.images) / white, np.array(ds.labels)) for ds in splits)


def get_views(images: np.ndarray, label: np.ndarray) -> DataFlow:
    """Return batches with two random views of each image: [image, other, label]."""
    ds = RepeatedData(DataFromList([[image, image, c] for image, c in zip(images, label)]), -1)
    for index in (0, 1):
        move = imgaug.Affine((0.7, 1.3), (0.15, 0.15), 25, shear=15, border=cv2.BORDER_CONSTANT)
        ds = AugmentImageComponent(ds, [move], index)
    return BatchData(ds, BATCH)


def measure(directory: str, model: Model, train: tuple, test: tuple) -> float:
    """Return the accuracy of a linear classifier on the features of the network."""
    init = SmartInit(tf.train.latest_checkpoint(directory))
    config = PredictConfig(model, session_init=init, input_names=["image"], output_names=["query/fc/output"])
    features = [OfflinePredictor(config)(images)[0] for images, _ in (train, test)]
    return LogisticRegression(max_iter=1000).fit(features[0], train[1]).score(features[1], test[1])


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", choices=["cifar10", "digits"], default="digits")
    parser.add_argument("--scratch", action="store_true", help="train on the labels only, for comparison")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    for name, value in (("max-epoch", 10), ("steps-per-epoch", 100), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--log-dir", default="train_log/moco_digits")
    args = parser.parse_args(argv)
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    train, test = get_data(args.data)
    order = np.random.RandomState(args.seed).permutation(len(train[1]))
    chosen = np.concatenate([order[train[1][order] == c][:LABELS] for c in range(10)])
    labelled = train[0][chosen], train[1][chosen]
    data = get_views(*(labelled if args.scratch else train))
    data.reset_state()
    views = np.concatenate(next(iter(data))[:2], axis=2)[:40]
    cv2.imwrite(f"{args.log_dir}/views.png", stack_patches(255 * views, 5, 8, border=4, bgcolor=128))
    steps, epochs = args.steps_per_epoch, args.max_epoch
    model, callbacks = Model(train[0].shape[1:], args.scratch, steps * epochs), [ModelSaver(), FollowQuery()]
    config = (AutoResumeTrainConfig if args.resume else TrainConfig)(
        model=model, data=QueueInput(data), callbacks=callbacks, steps_per_epoch=steps, max_epoch=epochs
    )
    launch_train_with_config(config, SimpleTrainer())
    logger.info("Test accuracy: %.4f", measure(args.log_dir, model, labelled, test))


if __name__ == "__main__":
    main()
