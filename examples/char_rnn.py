"""
An LSTM that learns to write text character by character, by default in the style of this library's documentation.

Shows: an LSTM with an initial state, clipped gradients, a predictor that is called with the state it returned.
Expect: about 2 bits per character after the last epoch. The generated text contains words, and code between backticks.

    python examples/char_rnn.py                         train on docs/*.md
    python examples/char_rnn.py --text FILE             train on another text
    python examples/char_rnn.py --sample "A trainer"    continue this text, with the last checkpoint in train_log/

Source: A. Karpathy 2015, "The unreasonable effectiveness of recurrent neural networks".
"""

from __future__ import annotations

import argparse
import math
import os

import numpy as np
from data.text import RandomPieces, Text, read_pages

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

BATCH = 32
LENGTH = 32  # characters of a sequence
UNITS = 192


class Model(ModelDesc):
    """An LSTM that predicts each character from the previous ones."""

    def __init__(self, num_characters: int) -> None:
        super().__init__()
        self.num_characters = num_characters

    def inputs(self):
        return [tf.TensorSpec([None, None], tf.int32, name) for name in ("text", "next")]

    def build_graph(self, text, following):
        zeros = tf.zeros([tf.shape(text)[0], 2, UNITS])
        state = tf.placeholder_with_default(zeros, [None, 2, UNITS], name="state")
        embedding = tf.get_variable("embedding", [self.num_characters, 64])
        x = tf.nn.embedding_lookup(embedding, text)
        x, last_state = LSTM("lstm", x, UNITS, initial_state=tf.unstack(state, axis=1))
        tf.stack(last_state, axis=1, name="last_state")
        logits = FullyConnected("scores", tf.reshape(x, [-1, UNITS]), self.num_characters)
        tf.nn.softmax(logits, name="prob")
        label = tf.reshape(following, [-1])
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cost")
        add_moving_summary(cost, tf.multiply(cost, 1 / math.log(2), name="bits_per_character"))
        return cost

    def optimizer(self):
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(4e-3), [gradproc.GlobalNormClip(5)])


def write(predictor, text: Text, beginning: str, count: int, seed: int = 0) -> str:
    """Continue a text. `predictor(piece [1, 1], state)` returns `[prob [1, C], state]`."""
    rng = np.random.RandomState(seed)
    prob, state = np.ones([1, len(text.characters)]), np.zeros([1, 2, UNITS], "float32")
    written = list(beginning)
    numbers = list(text.encode(beginning))
    for _ in range(count):
        for number in numbers:
            prob, state = predictor(np.array([[number]], "int32"), state)
        numbers = [rng.choice(len(text.characters), p=prob[0] / prob[0].sum())]
        written.append(text.characters[numbers[0]])
    return "".join(written)


def sample(args: argparse.Namespace, text: Text) -> str:
    """Continue `args.sample` with the weights of the last checkpoint."""
    config = PredictConfig(
        model=Model(len(text.characters)),
        session_init=SmartInit(tf.train.latest_checkpoint(args.log_dir)),
        input_names=["text", "state"],
        output_names=["prob", "last_state"],
    )
    return write(OfflinePredictor(config), text, args.sample, args.count, args.seed)


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--text", default="", help="a file; default: docs/*.md")
    parser.add_argument("--sample", default="", help="text to continue, with the last checkpoint")
    parser.add_argument("--count", type=int, default=300, help="number of characters to write")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    parser.add_argument("--max-epoch", type=int, default=10)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "char_rnn"))
    args = parser.parse_args(argv)
    text = Text("\n".join(read_pages(args.text)))
    if args.sample:
        print(sample(args, text))
        return
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    config = (AutoResumeTrainConfig if args.resume else TrainConfig)(
        model=Model(len(text.characters)),
        data=QueueInput(BatchData(RandomPieces(text, LENGTH), BATCH)),
        callbacks=[ModelSaver()],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()
