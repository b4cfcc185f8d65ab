"""
A language model of words that keeps its state in the graph between batches.

Shows: TensorInput with batches that are cut from one long text in the graph; separate states for training and validation
in local variables, which RunOp resets after each epoch; StatMonitorParamSetter.
Expect: a perplexity of 3.30. In the default, synthetic text each word is one of four words, which depend on the word *two*
positions earlier, so the best possible perplexity is 3.03. A model without memory can only learn the word frequencies.

    python examples/ptb_lstm.py                         a synthetic text; no download
    python examples/ptb_lstm.py --data DIR              Penn Treebank: ptb.train.txt and ptb.valid.txt

Source: Zaremba, Sutskever, Vinyals 2014, "Recurrent neural network regularization".
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

BATCH = 20
LENGTH = 16  # words of a sequence
PROBS = [0.55, 0.25, 0.15, 0.05]  # probabilities of the four words that can follow


class Model(ModelDesc):
    """An embedding, one LSTM layer and a softmax."""

    def __init__(self, num_words: int, units: int = 96) -> None:
        super().__init__()
        self.num_words, self.units = num_words, units

    def inputs(self):
        return [tf.TensorSpec([BATCH, LENGTH], tf.int32, name) for name in ("words", "next")]

    def build_graph(self, words, following):
        state = get_state(self.units)
        embedding = tf.get_variable("embedding", [self.num_words, self.units])
        x = tf.nn.embedding_lookup(embedding, words)
        first = tf.unstack(state.read_value(), axis=1)
        x, last = LSTM("lstm", Dropout(x, rate=0.1), self.units, initial_state=first)
        with tf.control_dependencies([tf.assign(state, tf.stack(last, axis=1))]):
            x = Dropout(tf.reshape(x, [-1, self.units]), rate=0.1)
        logits = FullyConnected("scores", x, self.num_words)
        label = tf.reshape(following, [-1])
        costs = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(costs, name="cost")
        add_moving_summary(cost, tf.exp(cost, name="perplexity"))
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=4e-3, trainable=False)
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(rate), [gradproc.GlobalNormClip(5)])


def get_state(units: int):
    """Return the local variable [N, 2, U] with the state of training or validation."""
    mode = "training" if get_current_tower_context().is_training else "validation"
    # The validation tower reuses all other variables, but creates this one.
    with tf.variable_scope("state", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            mode, [BATCH, 2, units], initializer=tf.zeros_initializer(), trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, "states"],
        )  # fmt: skip


def reset_states():
    """Return an operation that sets the states of training and validation to 0."""
    return tf.group(*[state.initializer for state in tf.get_collection("states")])


class Perplexity(ScalarStats):
    """The exponential of the mean cost."""

    def _after_inference(self) -> dict:
        (cost,) = super()._after_inference().values()
        return {"validation_perplexity": float(np.exp(cost))}


def make_text(count: int, num_words: int = 100, seed: int = 0) -> np.ndarray:
    """Return random words [count] int32. Each word determines which four words can follow two positions later."""
    followers = np.random.RandomState(0).randint(num_words, size=[num_words, len(PROBS)])
    rng = np.random.RandomState(seed)
    choices, words = rng.choice(len(PROBS), size=count, p=PROBS), rng.randint(num_words, size=count)
    for i in range(2, count):
        words[i] = followers[words[i - 2], choices[i]]
    return words.astype("int32")


def read_text(directory: str) -> tuple:
    """Return the training and validation texts of Penn Treebank, as word numbers."""
    texts = []
    for name in ("train", "valid"):
        with open(os.path.join(directory, f"ptb.{name}.txt"), encoding="utf-8") as file:
            texts.append(file.read().replace("\n", " <eos> ").split())
    number = {word: i for i, word in enumerate(sorted(set(texts[0])))}
    return tuple(np.array([number[word] for word in text], "int32") for text in texts)


def make_input(words: np.ndarray) -> TensorInput:
    """Cut a text into `BATCH` rows. Step k returns the words [k T, (k + 1) T) of each row, and their next words."""
    steps = (len(words) // BATCH - 1) // LENGTH
    rows = words[: len(words) // BATCH * BATCH].reshape(BATCH, -1)

    def get_tensors() -> list:
        start = tf.data.make_one_shot_iterator(tf.data.Dataset.range(steps).repeat()).get_next() * LENGTH
        text = tf.constant(rows)
        pieces = [text[:, start + offset : start + offset + LENGTH] for offset in (0, 1)]
        return [tf.ensure_shape(piece, [BATCH, LENGTH]) for piece in pieces]

    return TensorInput(get_tensors, steps)


def main(argv=None) -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", default="", metavar="DIR", help="Penn Treebank; default: a synthetic text")
    parser.add_argument("--max-epoch", type=int, default=8)
    parser.add_argument("--steps-per-epoch", type=int, default=0, help="0: the whole text")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-dir", default=os.path.join("train_log", "ptb_lstm"))
    args = parser.parse_args(argv)
    train, validation = read_text(args.data) if args.data else (make_text(200000), make_text(20000, seed=1))
    logger.set_logger_dir(args.log_dir, action="b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    source = make_input(train)
    config = TrainConfig(
        model=Model(int(train.max()) + 1),
        data=source,
        callbacks=[
            ModelSaver(),
            InferenceRunner(make_input(validation), Perplexity("cost")),
            RunOp(reset_states, run_before=False),  # after each epoch
            StatMonitorParamSetter("learning_rate", "validation_perplexity", lambda rate: rate / 4, 0.0, 2),
        ],
        steps_per_epoch=args.steps_per_epoch or source.size(),
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())


if __name__ == "__main__":
    main()
