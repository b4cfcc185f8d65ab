"""
An LSTM that learns to write text character by character, by default in the style of this library's documentation.

Shows: an LSTM with an initial state, clipped gradients, a predictor that is called with the state it returned.
Expect: fewer bits per held-out character than counts of what follows 4 characters, which need 2.31. The generated text
contains words, and code between backticks.

    python examples/char_rnn.py                         a fixed copy of the documentation; no download
    python examples/char_rnn.py --source                the same, and source: the text of transformer_lm.py
    python examples/char_rnn.py --text FILE             another text; its last tenth is held out
    python examples/char_rnn.py --sample "A trainer"    continue this text, with the last checkpoint in train_log/

Source: A. Karpathy 2015, "The unreasonable effectiveness of recurrent neural networks".
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from common import find_checkpoint, get_config_class, get_parser, print_summary, start
from data.text import RandomPieces, Text, ngram_bits, read_pages, split_pages, spread_pieces

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

BATCH = 32
LENGTH = 32  # characters of a training sequence
HELD_OUT_LENGTH = 256  # of a sequence for validation; the first characters of each are hard to predict
UNITS = 192


class Model(ModelDesc):
    """An LSTM that predicts each character from the previous ones."""

    def __init__(self, num_characters: int, total_steps: int = 1) -> None:
        super().__init__()
        self.num_characters = num_characters
        self.total_steps = total_steps

    def inputs(self):
        return [
            tf.TensorSpec([None, None], tf.int32, "text"),
            tf.TensorSpec([None, None], tf.int32, "next"),
        ]

    def build_graph(self, text, following):
        # the state (c, h) of the LSTM before the text; only `write` feeds it
        zeros = tf.zeros([tf.shape(text)[0], 2, UNITS])
        state = tf.placeholder_with_default(zeros, [None, 2, UNITS], name="state")

        embedding = tf.get_variable("embedding", [self.num_characters, 64])
        x = tf.nn.embedding_lookup(embedding, text)  # [N, T, 64]
        x, last_state = LSTM("lstm", x, UNITS, initial_state=tf.unstack(state, axis=1))  # [N, T, UNITS]
        tf.stack(last_state, axis=1, name="last_state")  # [N, 2, UNITS]
        x = tf.reshape(x, [-1, UNITS])  # [N T, UNITS]
        logits = FullyConnected("scores", x, self.num_characters)
        tf.nn.softmax(logits, name="prob")

        label = tf.reshape(following, [-1])  # [N T]
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cost")
        bits = tf.multiply(cost, 1 / math.log(2), name="bits_per_character")
        add_moving_summary(cost, bits)
        return cost

    def optimizer(self):
        rate = tf.train.cosine_decay(6e-3, get_global_step_var(), self.total_steps)
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(rate), [gradproc.GlobalNormClip(5)])


def write(predictor, text: Text, beginning: str, count: int, seed: int = 0) -> str:
    """
    Continue a text by `count` characters.

    `predictor(piece [1, 1], state [1, 2, UNITS])` returns `[prob [1, C], state]`.
    """
    rng = np.random.RandomState(seed)
    prob = np.ones([1, len(text.characters)])  # if there is no beginning
    state = np.zeros([1, 2, UNITS], "float32")
    written = beginning
    unread = list(text.encode(beginning))  # numbers of characters that the network has not seen
    for _ in range(count):
        for number in unread:
            prob, state = predictor(np.array([[number]], "int32"), state)
        number = rng.choice(len(text.characters), p=prob[0] / prob[0].sum())
        written += text.characters[number]
        unread = [number]
    return written


def sample(args: argparse.Namespace, text: Text) -> str:
    """Continue `args.sample` with the weights of the last checkpoint."""
    config = PredictConfig(
        model=Model(len(text.characters)),
        session_init=SmartInit(find_checkpoint(args.log_dir)),
        input_names=["text", "state"],
        output_names=["prob", "last_state"],
    )
    return write(OfflinePredictor(config), text, args.sample, args.count, args.seed)


def report(args: argparse.Namespace, trainer: Trainer, text: Text, held_out: np.ndarray) -> None:
    """Print the bits per held-out character."""
    figures = {
        "LSTM": trainer.monitors.get_latest("validation_bits_per_character"),
        "counts of what follows 4 characters": ngram_bits(text, held_out, 4),
        "counts of what follows 5 characters": ngram_bits(text, held_out, 5),
    }
    print_summary(args, "bits per character of held-out text", figures)


def main(argv=None) -> None:
    parser = get_parser(__doc__, "char_rnn", max_epoch=30, steps_per_epoch=100)
    parser.add_argument("--text", default="", help="a file; default: a copy of the documentation")
    parser.add_argument("--source", action="store_true", help="also train on source")
    parser.add_argument("--sample", default="", help="text to continue, with the last checkpoint")
    parser.add_argument("--count", type=int, default=300, help="number of characters to write")
    args = parser.parse_args(argv)
    text, held_out = split_pages(read_pages(args.text, args.source))
    if args.sample:
        print(sample(args, text))
        return
    start(args)
    validation = BatchData(spread_pieces(held_out, HELD_OUT_LENGTH, 256), 32)
    config = get_config_class(args)(
        model=Model(len(text.characters), args.steps_per_epoch * args.max_epoch),
        data=QueueInput(BatchData(RandomPieces(text, LENGTH), BATCH)),
        callbacks=[ModelSaver(), InferenceRunner(validation, ScalarStats("bits_per_character"))],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    report(args, trainer, text, held_out)


if __name__ == "__main__":
    main()
