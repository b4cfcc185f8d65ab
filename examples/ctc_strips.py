"""
A network that reads strips of handwritten digits without being told where each digit is.

Shows: convolutions and an LSTM over sequences of any length, the CTC cost, beam search, an Inferencer, sequences from files.
Expect: a label error rate of about 0.01. Other people wrote the held-out digits. strips.png shows what the network reads.

    python examples/ctc_strips.py                       strips of 3 to 8 of scikit-learn's digits; no download
    python examples/ctc_strips.py --data DIR --classes 61    train.npz and test.npz in DIR, e.g. with TIMIT's 61 phones
    python examples/ctc_strips.py --resume              continue the last run in train_log/

NumpySerializer.save writes these files from a DataFlow of `[frames, labels]`: float32 [T, D], such as T columns of an image or T
spectra of D bands, and int32 [L], numbers of classes from 0.
Source: Graves, Fernandez, Gomez, Schmidhuber 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

import argparse
import os

import cv2
import numpy as np
from data.strips import get_strips, pad

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.common import get_global_step_var
from tensorpack_lite.utils.stats import RatioCounter
from tensorpack_lite.utils.viz import draw_text, stack_patches

BATCH = 32


class Model(ModelDesc):
    """Three convolutions, a bidirectional LSTM, and scores of the classes and the blank; about 220,000 weights."""

    def __init__(self, num_bands: int, num_classes: int, steps: int = 1) -> None:
        super().__init__()
        self.num_bands, self.num_classes, self.steps = num_bands, num_classes, steps

    def inputs(self):
        return [
            tf.TensorSpec([None, None, self.num_bands], tf.float32, "frames"),
            tf.TensorSpec([None], tf.int32, "length"),
            tf.TensorSpec([None, None], tf.int32, "label"),  # padded with -1
        ]

    def build_graph(self, frames, length, label):
        x, length = tf.expand_dims(frames, 3), length // 4  # after two poolings
        with argscope(Conv2D, kernel_size=3, activation=BNReLU, use_bias=False):
            x = MaxPooling("pool0", Conv2D("conv0", x, 16), 2)
            x = MaxPooling("pool1", Conv2D("conv1", x, 32), 2)
            x = Conv2D("conv2", x, 64)
        batch = tf.shape(frames)[0]
        x = Dropout(tf.reshape(x, [batch, -1, self.num_bands // 4 * 64]), rate=0.2)
        x, _ = LSTM("lstm", x, 64, bidirectional=True, sequence_length=length)
        # the last class is the blank
        scores = FullyConnected("scores", tf.reshape(x, [-1, 128]), self.num_classes + 1)
        scores = tf.transpose(tf.reshape(scores, [batch, -1, self.num_classes + 1]), [1, 0, 2])
        places = tf.where(label >= 0)
        sparse = tf.SparseTensor(places, tf.gather_nd(label, places), tf.shape(label, out_type=tf.int64))
        cost = tf.reduce_mean(tf.nn.ctc_loss(sparse, scores, length), name="cost")
        (read,), _ = tf.nn.ctc_beam_search_decoder(scores, length, beam_width=16, merge_repeated=False)
        tf.sparse.to_dense(read, default_value=-1, name="read")
        tf.edit_distance(read, tf.cast(sparse, tf.int64), normalize=False, name="errors")
        summary.add_moving_summary(cost)
        return cost

    def optimizer(self):
        rate = tf.train.cosine_decay(3e-3, get_global_step_var(), self.steps)
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(rate), [gradproc.GlobalNormClip(5)])


def get_data(directory: str = "") -> list:
    """Return padded batches of training and held-out sequences."""
    paths = [os.path.join(directory, name) for name in ("train.npz", "test.npz")]
    both = map(NumpySerializer.load, paths) if directory else get_strips()
    return [MapData(BatchData(ds, BATCH, remainder=True, use_list=True), pad) for ds in both]


class LabelErrorRate(Inferencer):
    """Wrong, missing and additional labels per true label, and a picture of the first sequences."""

    def _get_fetches(self) -> list:
        return ["errors", "label", "frames", "read"]

    def _before_inference(self) -> None:
        self.ratio = RatioCounter()
        self.sequences: list = []

    def _on_fetches(self, results) -> None:
        self.ratio.feed(results[0].sum(), (results[1] >= 0).sum())
        self.sequences += zip(*results[2:])

    def _after_inference(self) -> dict:
        pictures = []
        for frames, read in self.sequences[:12]:
            picture = cv2.resize(255 * np.pad(frames, [(0, 0), (8, 0)], "constant").T, None, fx=2, fy=2)
            text = " ".join(str(k) for k in read if k >= 0)
            pictures.append(draw_text(np.stack([picture] * 3, 2), (0, 0), text, (255, 255, 255)))
        sheet = stack_patches(pictures, 6, 2, border=4, bgcolor=64)
        cv2.imwrite(f"{logger.get_logger_dir()}/strips.png", sheet)
        return {"label_error_rate": self.ratio.ratio}


def get_config(args: argparse.Namespace) -> TrainConfig:
    """Return the model, data and callbacks of this training."""
    train, test = get_data(args.data)
    test.reset_state()
    num_bands = next(iter(test))[0].shape[2]
    steps, measures = args.steps_per_epoch or len(train), InferenceRunner(test, LabelErrorRate())
    config_class = AutoResumeTrainConfig if args.resume else TrainConfig
    return config_class(
        model=Model(num_bands, args.classes, steps * args.max_epoch),
        data=QueueInput(train),
        callbacks=[ModelSaver(), measures, MinSaver("label_error_rate")],
        steps_per_epoch=steps,
        max_epoch=args.max_epoch,
    )


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="", metavar="DIR", help="directory of other sequences; see above")
    parser.add_argument("--classes", type=int, default=10, help="number of classes in DIR")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    parser.add_argument("--max-epoch", type=int, default=20)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: all training sequences")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "ctc_strips"))
    args = parser.parse_args(argv)
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    launch_train_with_config(get_config(args), SimpleTrainer())


if __name__ == "__main__":
    main()
