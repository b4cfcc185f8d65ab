"""
A language model of words that keeps its state in the graph between batches.

Shows: TensorInput with batches that are cut from one long text in the graph; separate states for training and
validation in local variables, which RunOp resets after each epoch; StatMonitorParamSetter.
Expect: a perplexity of 3.3. In the default, synthetic text each word is one of four words, which depend on the word
*two* positions earlier, so the best possible perplexity is 3.0. The LSTM has to discover this; counts of pairs of words
cannot.

    python examples/ptb_lstm.py                         a synthetic text; no download
    python examples/ptb_lstm.py --data DIR              Penn Treebank: ptb.train.txt and ptb.valid.txt

Source: Zaremba, Sutskever, Vinyals 2014, "Recurrent neural network regularization".
"""

from __future__ import annotations

import os

import numpy as np
from common import get_parser, print_summary, start

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.summary import add_moving_summary

BATCH = 20
LENGTH = 16  # words of a sequence
PROBS = [0.55, 0.25, 0.15, 0.05]  # probabilities of the four words that can follow; their perplexity is 3.0


class Model(ModelDesc):
    """An embedding, one LSTM layer and a softmax."""

    def __init__(self, num_words: int, units: int = 96) -> None:
        super().__init__()
        self.num_words = num_words
        self.units = units

    def inputs(self):
        return [
            tf.TensorSpec([BATCH, LENGTH], tf.int32, "words"),
            tf.TensorSpec([BATCH, LENGTH], tf.int32, "next"),
        ]

    def build_graph(self, words, following):
        state = get_state(self.units)  # [N, 2, units]: c and h after the previous batch
        embedding = tf.get_variable("embedding", [self.num_words, self.units])
        x = tf.nn.embedding_lookup(embedding, words)  # [N, T, units]
        first = tf.unstack(state.read_value(), axis=1)  # c and h, [N, units] each
        x = Dropout(x, rate=0.1)
        x, last = LSTM("lstm", x, self.units, initial_state=first)
        keep_state = tf.assign(state, tf.stack(last, axis=1))
        with tf.control_dependencies([keep_state]):  # each run that computes the cost also keeps the state
            x = tf.reshape(x, [-1, self.units])  # [N T, units]
        x = Dropout(x, rate=0.1)
        logits = FullyConnected("scores", x, self.num_words)  # [N T, words]
        label = tf.reshape(following, [-1])  # [N T]
        costs = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=label)
        cost = tf.reduce_mean(costs, name="cost")
        add_moving_summary(cost, tf.exp(cost, name="perplexity"))
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=4e-3, trainable=False)
        return optimizer.apply_grad_processors(tf.train.AdamOptimizer(rate), [gradproc.GlobalNormClip(5)])


def get_state(units: int):
    """Return the local variable [N, 2, U] with the state of training or validation. Checkpoints do not contain it."""
    mode = "training" if get_current_tower_context().is_training else "validation"
    # AUTO_REUSE: the validation tower reuses all other variables, but creates this one.
    with tf.variable_scope("state", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            mode,
            [BATCH, 2, units],
            initializer=tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, "states"],
        )


def reset_states():
    """Return an operation that sets the states of training and validation to 0."""
    return tf.group(*[state.initializer for state in tf.get_collection("states")])


class Perplexity(ScalarStats):
    """The exponential of the mean cost. The mean of the batches' perplexities would be larger."""

    def _after_inference(self) -> dict:
        means = super()._after_inference()  # {"validation_cost": the mean over all batches}
        return {"validation_perplexity": float(np.exp(means["validation_cost"]))}


def make_text(count: int, num_words: int = 100, seed: int = 0) -> np.ndarray:
    """Return random words [count] int32. Each word determines which four words can follow two positions later."""
    # the language: the four followers of each word, the same for all texts
    followers = np.random.RandomState(0).randint(num_words, size=[num_words, len(PROBS)])
    rng = np.random.RandomState(seed)
    choices = rng.choice(len(PROBS), size=count, p=PROBS)  # which of the four
    words = rng.randint(num_words, size=count)  # the first two words stay random
    for i in range(2, count):
        words[i] = followers[words[i - 2], choices[i]]
    return words.astype("int32")


def read_text(directory: str) -> tuple:
    """Return the training and validation texts of Penn Treebank, as word numbers."""
    texts = []
    for name in ("train", "valid"):
        with open(os.path.join(directory, f"ptb.{name}.txt"), encoding="utf-8") as file:
            texts.append(file.read().replace("\n", " <eos> ").split())
    number_of = {word: number for number, word in enumerate(sorted(set(texts[0])))}
    return tuple(np.array([number_of[word] for word in text], "int32") for text in texts)


def make_input(words: np.ndarray) -> TensorInput:
    """Cut a text into `BATCH` rows. Step k returns the words [k T, (k + 1) T) of each row, and their next words."""
    row_length = len(words) // BATCH
    rows = words[: BATCH * row_length].reshape(BATCH, row_length)
    num_steps = (row_length - 1) // LENGTH  # - 1: the last word of a row has no next word

    def get_tensors() -> list:
        step = tf.data.make_one_shot_iterator(tf.data.Dataset.range(num_steps).repeat()).get_next()
        start = step * LENGTH
        text = tf.constant(rows)
        current = text[:, start : start + LENGTH]
        following = text[:, start + 1 : start + 1 + LENGTH]
        # slices at the place of a tensor have an unknown length
        return [tf.ensure_shape(piece, [BATCH, LENGTH]) for piece in (current, following)]

    return TensorInput(get_tensors, num_steps)


def count_perplexity(train: np.ndarray, held_out: np.ndarray, distances: tuple) -> float:
    """Return the perplexity of counts: how often each word followed the words at these distances before it."""
    num_words = int(train.max()) + 1
    longest = max(distances)

    def number_contexts(words) -> np.ndarray:
        """Return a number for the words at the distances before each word, [words - longest]."""
        context = np.zeros(len(words) - longest, "int64")
        for distance in distances:
            context = context * num_words + words[longest - distance : -distance]
        return context

    counts = np.full([num_words ** len(distances), num_words], 0.1)  # not 0, for pairs that the training text lacks
    np.add.at(counts, (number_contexts(train), train[longest:]), 1)
    probabilities = counts / counts.sum(axis=1, keepdims=True)  # [contexts, words]
    costs = -np.log(probabilities[number_contexts(held_out), held_out[longest:]])
    return float(np.exp(costs.mean()))


def report(args, trainer: Trainer, train: np.ndarray, held_out: np.ndarray) -> None:
    """Print the perplexity, and that of counts."""
    figures = {"LSTM": trainer.monitors.get_latest("validation_perplexity")}
    if not args.data:
        figures["counts of pairs of words"] = count_perplexity(train, held_out, (1,))
        figures["counts of triples"] = count_perplexity(train, held_out, (2, 1))
        figures["counts that know the rule"] = count_perplexity(train, held_out, (2,))
    print_summary(args, "perplexity of held-out words", figures)


def main(argv=None) -> None:
    parser = get_parser(__doc__, "ptb_lstm", max_epoch=8, has_resume=False)
    parser.add_argument("--data", default="", metavar="DIR", help="Penn Treebank; default: a synthetic text")
    args = parser.parse_args(argv)
    start(args)
    if args.data:
        train, validation = read_text(args.data)
    else:
        train, validation = make_text(200000), make_text(20000, seed=1)
    source = make_input(train)
    config = TrainConfig(
        model=Model(int(train.max()) + 1),
        data=source,
        callbacks=[
            ModelSaver(),
            InferenceRunner(make_input(validation), Perplexity("cost")),
            RunOp(reset_states, run_before=False),  # after each epoch
            # a quarter of the rate unless the perplexity has decreased within the last two epochs
            StatMonitorParamSetter(
                "learning_rate", "validation_perplexity", lambda rate: rate / 4, threshold=0.0, last_k=2
            ),
        ],
        steps_per_epoch=args.steps_per_epoch or source.size(),
        max_epoch=args.max_epoch,
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    report(args, trainer, train, validation)


if __name__ == "__main__":
    main()
