"""
A network that reads strips of handwritten digits without being told where each digit is.

Shows: convolutions and an LSTM over sequences of any length, the CTC cost, beam search, an Inferencer, sequences from
files.
Expect: a label error rate of about 0.01. A support vector machine that is told where each digit is has 0.08. Other
people wrote the 360 digits of the 450 held-out strips, in which each digit occurs about seven times. strips.png shows
what the network reads.

    python examples/ctc_strips.py                       strips of 3 to 8 of scikit-learn's digits; no download
    python examples/ctc_strips.py --data DIR --classes 61    train.npz and test.npz in DIR, e.g. with TIMIT's 61 phones
    python examples/ctc_strips.py --resume              continue the last run in train_log/

NumpySerializer.save writes these files from a DataFlow of `[frames, labels]`: float32 [T, D], such as T columns of an
image or T spectra of D bands, and int32 [L], numbers of classes from 0.
Source: Graves, Fernandez, Gomez, Schmidhuber 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

import argparse
import os

import cv2
import numpy as np
from common import get_config_class, get_parser, print_summary, start
from data.strips import get_strips, get_svm_error, pad

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.utils.stats import RatioCounter
from tensorpack_lite.utils.viz import draw_text, stack_patches

BATCH = 32


class Model(ModelDesc):
    """Three convolutions, a bidirectional LSTM, and scores of the classes and the blank; about 220,000 weights."""

    def __init__(self, num_bands: int, num_classes: int, total_steps: int = 1) -> None:
        super().__init__()
        self.num_bands = num_bands
        self.num_classes = num_classes
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, None, self.num_bands], tf.float32, "frames"),  # [N, T, bands], padded with 0
            tf.TensorSpec([None], tf.int32, "length"),  # of the frames without the padding
            tf.TensorSpec([None, None], tf.int32, "label"),  # [N, L], padded with -1
        ]

    def build_graph(self, frames, length, label):
        scores, length = self.score_frames(frames, length)
        label = to_sparse(label)
        cost = tf.nn.ctc_loss(label, scores, length)  # [N]
        cost = tf.reduce_mean(cost, name="cost")
        summary.add_moving_summary(cost)

        # what the network reads, for LabelErrorRate: the most probable labels, as a SparseTensor like `label`
        decoded, _ = tf.nn.ctc_beam_search_decoder(scores, length, beam_width=16, merge_repeated=False)
        read = decoded[0]
        tf.sparse.to_dense(read, default_value=-1, name="read")  # [N, labels]
        tf.edit_distance(read, tf.cast(label, tf.int64), normalize=False, name="errors")  # [N]
        return cost

    def score_frames(self, frames, length) -> tuple:
        """Return the scores of all classes and the blank, [T / 4, N, classes + 1], and the lengths divided by 4."""
        batch = tf.shape(frames)[0]
        length = length // 4  # after two poolings
        x = tf.expand_dims(frames, 3)  # [N, T, bands, 1]
        with argscope(Conv2D, kernel_size=3, activation=BNReLU, use_bias=False):
            x = Conv2D("conv0", x, 16)
            x = MaxPooling("pool0", x, 2)  # [N, T / 2, bands / 2, 16]
            x = Conv2D("conv1", x, 32)
            x = MaxPooling("pool1", x, 2)  # [N, T / 4, bands / 4, 32]
            x = Conv2D("conv2", x, 64)
        x = tf.reshape(x, [batch, -1, self.num_bands // 4 * 64])  # [N, T / 4, features]
        x = Dropout(x, rate=0.2)
        x, _ = LSTM("lstm", x, 64, bidirectional=True, sequence_length=length)  # [N, T / 4, 128]
        x = tf.reshape(x, [-1, 128])  # [N T / 4, 128]
        scores = FullyConnected("scores", x, self.num_classes + 1)  # the last class is the blank
        scores = tf.reshape(scores, [batch, -1, self.num_classes + 1])
        return tf.transpose(scores, [1, 0, 2]), length  # time first, as the CTC functions expect

    def optimizer(self):
        rate = tf.train.cosine_decay(3e-3, get_global_step_var(), self.total_steps)
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(rate), [gradproc.GlobalNormClip(5)])


def to_sparse(label):
    """Return the labels [N, L], padded with -1, as a SparseTensor without the padding."""
    places = tf.where(label >= 0)  # [labels, 2]: datapoint and position of each label
    values = tf.gather_nd(label, places)  # [labels]
    return tf.SparseTensor(places, values, tf.shape(label, out_type=tf.int64))


def get_data(directory: str = "") -> list:
    """Return two DataFlows, of padded batches of training and of held-out sequences: [frames, length, label]."""
    if directory:
        train = NumpySerializer.load(os.path.join(directory, "train.npz"))
        test = NumpySerializer.load(os.path.join(directory, "test.npz"))
    else:
        train, test = get_strips()
    return [pad_batches(train), pad_batches(test)]


def pad_batches(sequences: DataFlow) -> DataFlow:
    """Return batches, in which all sequences are as long as the longest one of the batch."""
    lists = BatchData(sequences, BATCH, remainder=True, use_list=True)  # lists, because the lengths differ
    return MapData(lists, pad)


class LabelErrorRate(Inferencer):
    """Wrong, missing and additional labels per true label. Also draws the first sequences."""

    def _get_fetches(self) -> list:
        return ["errors", "label", "frames", "read"]

    def _before_inference(self) -> None:
        self.ratio = RatioCounter()
        self.sequences: list = []  # (frames [T, bands], read [labels]) of each

    def _on_fetches(self, results) -> None:
        errors, label, frames, read = results
        num_labels = (label >= 0).sum()  # -1 is padding
        self.ratio.feed(errors.sum(), num_labels)
        self.sequences += zip(frames, read)

    def _after_inference(self) -> dict:
        pictures = [draw_sequence(frames, read) for frames, read in self.sequences[:12]]
        sheet = stack_patches(pictures, 6, 2, border=4, bgcolor=64)
        cv2.imwrite(f"{logger.get_logger_dir()}/strips.png", sheet)
        return {"label_error_rate": self.ratio.ratio}


def draw_sequence(frames: np.ndarray, read: np.ndarray) -> np.ndarray:
    """Return a picture of frames [T, bands] in [0, 1], and above them the numbers of the classes that were read."""
    picture = np.pad(frames, [(0, 0), (8, 0)], "constant").T  # [8 + bands, T]
    picture = cv2.resize(255 * picture, None, fx=2, fy=2)
    picture = np.stack([picture] * 3, axis=2)  # gray as RGB
    text = " ".join(str(k) for k in read if k >= 0)  # -1 is padding
    return draw_text(picture, (0, 0), text, (255, 255, 255))


def get_config(args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    train, test = get_data(args.data)
    test.reset_state()
    frames, _, _ = next(iter(test))  # [N, T, bands]
    num_bands = frames.shape[2]
    steps = args.steps_per_epoch or len(train)
    return get_config_class(args)(
        model=Model(num_bands, args.classes, steps * args.max_epoch),
        data=QueueInput(train),
        callbacks=[ModelSaver(), InferenceRunner(test, LabelErrorRate()), MinSaver("label_error_rate")],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )


def main(argv=None) -> None:
    parser = get_parser(__doc__, "ctc_strips", max_epoch=20)
    parser.add_argument("--data", default="", metavar="DIR", help="directory of other sequences; see above")
    parser.add_argument("--classes", type=int, default=10, help="number of classes in DIR")
    args = parser.parse_args(argv)
    start(args)
    trainer = SimpleTrainer()
    launch_train_with_config(get_config(args), trainer)
    figures = {"network": trainer.monitors.get_latest("label_error_rate")}
    if not args.data:
        figures["support vector machine that is told the places"] = get_svm_error()
    files = {"strips.png": "held-out strips, and what the network reads"}
    print_summary(args, "wrong, missing and additional labels per held-out label", figures, files)


if __name__ == "__main__":
    main()
