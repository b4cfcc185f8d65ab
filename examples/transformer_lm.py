"""
A small GPT that learns to write text character by character.

Shows: MultiHeadAttention, a learning rate with warm-up and cosine decay, mixed precision, sampling with a cache.
Expect: fewer bits per held-out character than counts of what follows 5 characters, which need 1.92. curve.png shows all
epochs.

    python examples/transformer_lm.py                       a fixed copy of this library's documentation and source
    python examples/transformer_lm.py --text FILE           train on another text; its last tenth is held out
    python examples/transformer_lm.py --fp16                compute in float16, which most CPUs do slowly, or `--fp16 bfloat16`
    python examples/transformer_lm.py --sample "class "     continue this text, with the last checkpoint in train_log/

Source: Radford et al. 2019, "Language models are unsupervised multitask learners"; Press et al. 2022, "Train short,
test long".
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from common import find_checkpoint, get_config_class, get_parser, print_summary, start
from data.text import RandomPieces, Text, ngram_bits, read_pages, split_pages, spread_pieces
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer

BATCH = 8
LENGTH = 128  # characters of a training sequence; those for validation have twice as many
LAYERS = 4
HEADS = 4
UNITS = 128
# Attention decreases with the distance of characters (ALiBi), in each head with another slope. It is strongest at the
# preferred distance: two heads look at the previous character, and at the one before it.
SLOPE = np.array([2, 2, 1 / 4, 1 / 32], "float32").reshape([HEADS, 1, 1])
PREFERRED = np.array([1, 2, 0, 0], "float32").reshape([HEADS, 1, 1])
WARM_UP = 100  # steps until the learning rate is reached
TEMPERATURE = 0.8  # of sampling; smaller is more cautious


class Model(ModelDesc):
    """A GPT with about 830,000 weights."""

    def __init__(self, num_characters: int, steps: int = 1, dtype: str = "float32") -> None:
        super().__init__()
        self.num_characters = num_characters
        self.steps = steps
        self.dtype = tf.as_dtype(dtype)

    def inputs(self):
        return [
            tf.TensorSpec([None, None], tf.int32, "text"),
            tf.TensorSpec([None, None], tf.int32, "next"),
        ]

    def build_graph(self, text, following):
        batch, length = tf.unstack(tf.shape(text))  # N, T
        # what the attention of each layer has seen before the text: nothing, unless `sample` feeds it
        empty = tf.zeros([batch, LAYERS, 0, UNITS])
        cache = tf.placeholder_with_default(empty, [None, LAYERS, None, UNITS], name="cache")
        bias = attention_bias(past=tf.shape(cache)[2], length=length)  # [HEADS, T, past + T]

        embedding = tf.get_variable(
            "embedding", [self.num_characters, UNITS], initializer=tf.random_normal_initializer()
        )
        # A row for each character: FullyConnected would flatten [N, T, UNITS] to [N, T UNITS].
        x = tf.nn.embedding_lookup(embedding, tf.reshape(text, [-1]))  # [N T, UNITS]
        x = tf.cast(x, self.dtype)
        new_cache = []
        small = tf.random_normal_initializer(stddev=0.02)
        layers = [FullyConnected, MultiHeadAttention]
        with varreplace.custom_getter_scope(get_float32), argscope(layers, kernel_initializer=small):
            for k in range(LAYERS):
                with tf.variable_scope(f"layer{k}"):
                    x, seen = self.add_layer(x, cache[:, k], bias, [batch, length, UNITS])
                    new_cache.append(seen)
            x = LayerNorm("ln", x)  # [N T, UNITS]
            logits = FullyConnected("scores", x, self.num_characters)

        new_cache = tf.stack(new_cache, axis=1)  # [N, LAYERS, past + T, UNITS]
        tf.identity(tf.cast(new_cache, tf.float32), name="new_cache")
        logits = tf.identity(tf.cast(logits, tf.float32), name="logits")  # [N T, characters]
        cost = tf.losses.sparse_softmax_cross_entropy(tf.reshape(following, [-1]), logits)
        cost = tf.identity(cost, name="cost")
        bits = tf.multiply(cost, 1 / math.log(2), name="bits_per_character")
        summary.add_moving_summary(cost, bits)
        return cost

    def add_layer(self, x, past, bias, shape: list) -> tuple:
        """
        Add attention and two fully connected layers.

        Args:
            x: [N T, UNITS].
            past: what this layer has seen before the text, [N, past, UNITS].
            bias: of the attention, [HEADS, T, past + T].
            shape: [N, T, UNITS].

        Returns:
            x [N T, UNITS], and what the layer has now seen [N, past + T, UNITS].
        """
        y = LayerNorm("ln0", x)
        y = tf.reshape(y, shape)  # [N, T, UNITS]
        seen = tf.concat([tf.cast(past, self.dtype), y], axis=1)  # [N, past + T, UNITS]
        y = MultiHeadAttention("attention", y, HEADS, value=seen, causal=True, score_bias=bias)  # [N, T, UNITS]
        x += tf.reshape(y, [-1, UNITS])

        y = LayerNorm("ln1", x)
        y = FullyConnected("fc0", y, 4 * UNITS, activation=tf.nn.relu)  # [N T, 4 UNITS]
        y = y * y  # So et al. 2021, "Primer": squared ReLU
        x += FullyConnected("fc1", y, UNITS)
        return x, seen

    def optimizer(self):
        step = get_global_step_var()
        warm_up = tf.minimum(tf.cast(step + 1, tf.float32) / WARM_UP, 1.0)
        rate = warm_up * tf.train.cosine_decay(3e-3, step, self.steps)
        opt = tf.train.AdamOptimizer(rate, beta2=0.98)
        if self.dtype == tf.float16:  # its small gradients would become 0; bfloat16 has the range of float32
            opt = DynamicLossScaleOptimizer(opt)
        return optimizer.apply_grad_processors(opt, [gradproc.GlobalNormClip(1)])


def get_float32(getter, *args, dtype=tf.float32, **kwargs):
    """Create a float32 variable, and return its value in the dtype that the layer asks for."""
    return tf.cast(getter(*args, dtype=tf.float32, **kwargs), dtype)


def attention_bias(past, length):
    """Return what is added to the scores of attention, [HEADS, length, past + length]."""
    query = tf.range(past, past + length)[:, None]  # position of the character that looks, [length, 1]
    key = tf.range(past + length)  # position of the character that is looked at, [past + length]
    distance = tf.cast(query - key, tf.float32)  # [length, past + length]
    return -SLOPE * tf.abs(distance - PREFERRED)


def get_data(path: str = "") -> tuple:
    """
    Return the text for training, batches of its pieces, batches of held-out pieces, and all held-out characters.

    The last tenth of each file is held out.
    """
    text, held_out = split_pages(read_pages(path, with_source=True))
    train = BatchData(RandomPieces(text, LENGTH), BATCH)
    validation = BatchData(spread_pieces(held_out, 2 * LENGTH, count=256), 32)
    return text, train, validation, held_out


def sample(args: argparse.Namespace, text: Text) -> str:
    """Continue `args.sample` by 300 characters, with the weights of the last checkpoint."""
    config = PredictConfig(
        model=Model(len(text.characters)),
        session_init=SmartInit(find_checkpoint(args.log_dir)),
        input_names=["text", "cache"],
        output_names=["logits", "new_cache"],
    )
    predictor = OfflinePredictor(config)
    rng = np.random.RandomState(args.seed)
    cache = np.zeros([1, LAYERS, 0, UNITS], "float32")
    new = text.encode(args.sample)  # [T]: first the whole beginning, then a character at a time
    written = ""
    for _ in range(300):
        written += "".join(text.characters[number] for number in new)
        recent = cache[:, :, -2 * LENGTH :]  # no more than validation has seen
        logits, cache = predictor(new[None], recent)
        scores = logits[-1] / TEMPERATURE  # [characters]: what follows the last one
        noise = rng.gumbel(size=scores.shape)
        drawn = np.argmax(scores + noise)  # the same as a random draw from softmax(scores)
        new = np.array([drawn], "int32")
    return written


def draw_curve(args: argparse.Namespace, trainer: Trainer, counts: float) -> None:
    """Write curve.png: the bits per held-out character after each epoch, and those of counts."""
    figure = Figure(figsize=(4.8, 3.2), tight_layout=True)
    axes = figure.subplots()
    steps, bits = zip(*trainer.monitors.get_history("validation_bits_per_character"))
    axes.plot(steps, bits, label="GPT")
    axes.axhline(counts, color="gray", linestyle="--", label="counts of what follows 5 characters")
    axes.set(xlabel="step", ylabel="bits per held-out character")
    axes.legend()
    figure.savefig(f"{args.log_dir}/curve.png")


def main(argv=None) -> None:
    parser = get_parser(__doc__, "transformer_lm", max_epoch=40, steps_per_epoch=200)
    parser.add_argument("--text", default="", help="a file; default: a copy of this library")
    parser.add_argument("--fp16", nargs="?", const="float16", default="float32", help="float16 or bfloat16")
    parser.add_argument("--sample", default="", help="text to continue, with the last checkpoint")
    args = parser.parse_args(argv)
    text, train, validation, held_out = get_data(args.text)
    if args.sample:
        print(sample(args, text))
        return
    start(args)
    config = get_config_class(args)(
        model=Model(len(text.characters), args.steps_per_epoch * args.max_epoch, args.fp16),
        data=QueueInput(train),
        callbacks=[ModelSaver(), InferenceRunner(validation, ScalarStats("bits_per_character"))],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    counts = ngram_bits(text, held_out, 5)
    draw_curve(args, trainer, counts)
    figures = {
        "GPT": trainer.monitors.get_latest("validation_bits_per_character"),
        "counts of what follows 5 characters": counts,
    }
    print_summary(args, "bits per character of held-out text", figures, {"curve.png": "all epochs"})


if __name__ == "__main__":
    main()
