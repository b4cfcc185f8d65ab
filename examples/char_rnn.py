"""
A character model: an LSTM learns to write like the text it reads, by default the documentation of this library.

Shows: an LSTM cell of a few lines, a model whose steps in time share their variables, gradients clipped by their norm, a
predictor that is called again and again with the state that it returned.
Expect: about 2 bits a character after the last epoch; what it writes has words, and code between backticks.

    python examples/char_rnn.py                         train on docs/*.md
    python examples/char_rnn.py --text FILE             train on another text
    python examples/char_rnn.py --sample "A trainer"    go on from there, with the last checkpoint in train_log/

Source: A. Karpathy 2015, "The unreasonable effectiveness of recurrent neural networks".
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import numpy as np

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.scope_utils import auto_reuse_variable_scope
from tensorpack_lite.tfutils.summary import add_moving_summary

BATCH = 32
LENGTH = 32  # characters that gradients go back through
UNITS = 192


@auto_reuse_variable_scope
def lstm_cell(x, memory, output):
    """
    One step in time: from what comes in [N, D], the memory [N, U] and the last output [N, U] to the next memory and output.

    Its variables are W [D + U, 4 U] and b [4 U] of the scope it is called in.
    """
    inputs, units = x.shape.as_list()[1], memory.shape.as_list()[1]
    W = tf.get_variable("W", [inputs + units, 4 * units], initializer=tf.glorot_uniform_initializer())
    b = tf.get_variable("b", [4 * units], initializer=tf.zeros_initializer())
    new, enter, keep, show = tf.split(tf.matmul(tf.concat([x, output], 1), W) + b, 4, axis=1)
    memory = memory * tf.sigmoid(keep + 1) + tf.tanh(new) * tf.sigmoid(enter)
    return memory, tf.tanh(memory) * tf.sigmoid(show)


def lstm(sequence, state):
    """All steps of a sequence [N, T, D] with known T, from a state [N, 2, U]: outputs [N, T, U] and the last state."""
    memory, output = tf.unstack(state, axis=1)
    outputs = []
    for x in tf.unstack(sequence, axis=1):
        memory, output = lstm_cell(x, memory, output)
        outputs.append(output)
    return tf.stack(outputs, axis=1), tf.stack([memory, output], axis=1)


class Model(ModelDesc):
    """An LSTM; from each character, and those before it, the next one is told."""

    def __init__(self, num_characters: int, length: int = LENGTH) -> None:
        super().__init__()
        self.num_characters, self.length = num_characters, length

    def inputs(self):
        return [tf.TensorSpec([None, self.length], tf.int32, name) for name in ("text", "next")]

    def build_graph(self, text, following):
        zeros = tf.zeros([tf.shape(text)[0], 2, UNITS])
        state = tf.placeholder_with_default(zeros, [None, 2, UNITS], name="state")
        embedding = tf.get_variable("embedding", [self.num_characters, 64])
        with tf.variable_scope("lstm"):
            x, last_state = lstm(tf.nn.embedding_lookup(embedding, text), state)
        tf.identity(last_state, name="last_state")

        logits = FullyConnected("scores", tf.reshape(x, [-1, UNITS]), self.num_characters)
        tf.nn.softmax(logits, name="prob")
        label = tf.reshape(following, [-1])
        cost = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(cost, name="cost")
        add_moving_summary(cost, tf.multiply(cost, 1 / math.log(2), name="bits_per_character"))
        return cost

    def optimizer(self):
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(4e-3), [gradproc.GlobalNormClip(5)])


class Text:
    """A text as numbers, and back."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self.number = {c: i for i, c in enumerate(self.characters)}
        self.numbers = self.encode(text)

    def encode(self, text: str) -> np.ndarray:
        return np.array([self.number[c] for c in text if c in self.number], dtype="int32")


def read_text(path: str = "") -> Text:
    """The text of a file, or that of this library's pages."""
    pages = [Path(path)] if path else sorted(Path(__file__).resolve().parents[1].glob("docs/*.md"))
    return Text("\n".join(page.read_text(encoding="utf-8") for page in pages))


class RandomPieces(RNGDataFlow):
    """Pieces of a text, anywhere in it: [piece [T], the same one character later [T]]."""

    def __init__(self, text: Text, length: int = LENGTH) -> None:
        self.text, self.length = text, length

    def __len__(self) -> int:
        return len(self.text.numbers) // self.length

    def __iter__(self):
        for _ in range(len(self)):
            start = self.rng.randint(len(self.text.numbers) - self.length)
            piece = self.text.numbers[start : start + self.length + 1]
            yield [piece[:-1], piece[1:]]


def write(predictor, text: Text, beginning: str, count: int, seed: int = 0) -> str:
    """Go on from a beginning, character by character; `predictor(piece [1, 1], state)` gives `[prob [1, C], state]`."""
    rng, state = np.random.RandomState(seed), np.zeros([1, 2, UNITS], "float32")
    written = list(beginning)
    numbers = list(text.encode(beginning))
    for _ in range(count):
        for number in numbers:
            prob, state = predictor(np.array([[number]], "int32"), state)
        numbers = [rng.choice(len(text.characters), p=prob[0] / prob[0].sum())]
        written.append(text.characters[numbers[0]])
    return "".join(written)


def sample(args: argparse.Namespace, text: Text) -> str:
    """Write with the weights of the last checkpoint."""
    predictor = OfflinePredictor(
        PredictConfig(
            model=Model(len(text.characters), length=1),
            session_init=SmartInit(tf.train.latest_checkpoint(args.log_dir)),
            input_names=["text", "state"],
            output_names=["prob", "last_state"],
        )
    )
    return write(predictor, text, args.sample, args.count, args.seed)


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", default="", help="a file; otherwise docs/*.md")
    parser.add_argument("--sample", default="", help="write on from these words, with the last checkpoint")
    parser.add_argument("--count", type=int, default=300, help="how many characters to write")
    parser.add_argument("--max-epoch", type=int, default=10)
    parser.add_argument("--steps-per-epoch", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "char_rnn"))
    args = parser.parse_args(argv)
    text = read_text(args.text)
    if args.sample:
        print(sample(args, text))
        return
    logger.set_logger_dir(args.log_dir, action="b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    config = TrainConfig(
        model=Model(len(text.characters)),
        data=QueueInput(BatchData(RandomPieces(text), BATCH)),
        callbacks=[ModelSaver()],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()
