"""
A small GPT that learns to write text character by character.

Shows: causal attention, a learning rate with warm-up and cosine decay, mixed precision, sampling with a cache.
Expect: about 1.43 bits per character of held-out text after 8,000 steps; curve.png in the log directory shows all epochs.

    python examples/transformer_lm.py                       train on the documentation and source of this library
    python examples/transformer_lm.py --text FILE           train on another text; its last tenth is held out
    python examples/transformer_lm.py --fp16                compute in float16, which most CPUs do slowly, or `--fp16 bfloat16`
    python examples/transformer_lm.py --sample "class "     continue this text, with the last checkpoint in train_log/

Source: Radford et al. 2019, "Language models are unsupervised multitask learners"; Press et al. 2022, "Train short, test long".
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from data.text import RandomPieces, Text, read_pages, split_pages, spread_pieces
from matplotlib.figure import Figure

from tensorpack_lite import *
from tensorpack_lite import tfv1 as tf
from tensorpack_lite.tfutils.loss_scale import DynamicLossScaleOptimizer

BATCH, LENGTH = 8, 128  # LENGTH: characters of a training sequence
LAYERS, HEADS, SIZE = 4, 4, 32  # SIZE: of the keys and values of a head
UNITS = HEADS * SIZE
# Attention decreases with the distance (ALiBi). Two heads prefer the previous character and the one before.
SLOPE = np.array([2, 2, 1 / 4, 1 / 32], "float32")[:, None, None]
PREFERRED = np.array([1, 2, 0, 0], "float32")[:, None, None]


class Model(ModelDesc):
    """A GPT with about 830,000 weights."""

    def __init__(self, num_characters: int, steps: int = 1, dtype: str = "float32") -> None:
        super().__init__()
        self.num_characters, self.steps, self.dtype = num_characters, steps, tf.as_dtype(dtype)

    def inputs(self):
        return [tf.TensorSpec([None, None], tf.int32, name) for name in ("text", "next")]

    def build_graph(self, text, following):
        empty = tf.zeros([tf.shape(text)[0], LAYERS, 2, HEADS, 0, SIZE])
        cache = tf.placeholder_with_default(empty, [None, LAYERS, 2, HEADS, None, SIZE], name="cache")
        past, length = tf.shape(cache)[4], tf.shape(text)[1]
        distance = tf.cast(tf.range(past, past + length)[:, None] - tf.range(past + length), tf.float32)
        bias = 1e9 * tf.minimum(distance, 0.0) - SLOPE * tf.abs(distance - PREFERRED)  # hides the future
        init, large, caches = tf.random_normal_initializer(stddev=0.02), tf.random_normal_initializer(), []
        embedding = tf.get_variable("embedding", [self.num_characters, UNITS], initializer=large)
        x = tf.cast(tf.nn.embedding_lookup(embedding, tf.reshape(text, [-1])), self.dtype)  # [N T, UNITS]
        with varreplace.custom_getter_scope(get_float32), argscope(FullyConnected, kernel_initializer=init):
            for k in range(LAYERS):
                with tf.variable_scope(f"layer{k}"):
                    y, now = attend(LayerNorm("ln0", x), tf.cast(cache[:, k], self.dtype), bias)
                    x, caches = x + FullyConnected("out", y, UNITS), [*caches, now]
                    y = FullyConnected("fc0", LayerNorm("ln1", x), 4 * UNITS, activation=tf.nn.relu)
                    x += FullyConnected("fc1", y * y, UNITS)  # So et al. 2021, "Primer": squared ReLU
            scores = FullyConnected("scores", LayerNorm("ln", x), self.num_characters)
        tf.identity(tf.cast(tf.stack(caches, axis=1), tf.float32), name="new_cache")
        logits, label = tf.identity(tf.cast(scores, tf.float32), name="logits"), tf.reshape(following, [-1])
        cost = tf.identity(tf.losses.sparse_softmax_cross_entropy(label, logits), name="cost")
        summary.add_moving_summary(cost, tf.multiply(cost, 1 / math.log(2), name="bits_per_character"))
        return cost

    def optimizer(self):
        step = get_global_step_var()
        warm_up = tf.minimum(tf.cast(step + 1, tf.float32) / 100, 1.0)
        opt = tf.train.AdamOptimizer(warm_up * tf.train.cosine_decay(3e-3, step, self.steps), beta2=0.98)
        if self.dtype == tf.float16:  # small gradients would become 0; bfloat16 has the range of float32
            opt = DynamicLossScaleOptimizer(opt)
        return optimizer.apply_grad_processors(opt, [gradproc.GlobalNormClip(1)])


def get_float32(getter, *args, dtype=tf.float32, **kwargs):
    """Create a float32 variable, and return its value in the dtype that the layer asks for."""
    return tf.cast(getter(*args, dtype=tf.float32, **kwargs), dtype)


def attend(x, cache, bias):
    """Return the attended values [N T, UNITS], and all keys and values [N, 2, HEADS, past + T, SIZE]."""
    x = tf.reshape(FullyConnected("qkv", x, 3 * UNITS), [-1, tf.shape(bias)[1], 3, HEADS, SIZE])
    x = tf.transpose(x, [0, 2, 3, 1, 4])  # [N, 3, HEADS, T, SIZE]
    query, new = tf.split(x, [1, 2], axis=1)  # whose gradient is much faster than that of a slice
    cache = tf.concat([cache, new], axis=3)
    keys, values = tf.unstack(cache, axis=1)
    scores = tf.matmul(tf.squeeze(query, 1) * SIZE**-0.5, keys, transpose_b=True)
    weights = tf.cast(tf.nn.softmax(tf.cast(scores, tf.float32) + bias), x.dtype)
    return tf.reshape(tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3]), [-1, UNITS]), cache


def get_data(path: str = "") -> tuple:
    """Return the text for training, batches of its pieces, and batches of pieces of the last tenth of each file."""
    text, held_out = split_pages(read_pages(path, with_source=True))
    train = BatchData(RandomPieces(text, LENGTH), BATCH)
    return text, train, BatchData(spread_pieces(held_out, 2 * LENGTH, 256), 32)


def sample(args: argparse.Namespace, text: Text) -> str:
    """Continue `args.sample` with the weights of the last checkpoint."""
    init = SmartInit(tf.train.latest_checkpoint(args.log_dir))
    model, inputs, outputs = Model(len(text.characters)), ["text", "cache"], ["logits", "new_cache"]
    config = PredictConfig(model, session_init=init, input_names=inputs, output_names=outputs)
    predictor = OfflinePredictor(config)
    rng, cache = np.random.RandomState(args.seed), np.zeros([1, LAYERS, 2, HEADS, 0, SIZE], "float32")
    new, written = text.encode(args.sample), ""  # the first call reads it all, later ones a character
    for _ in range(300):
        written += "".join(text.characters[number] for number in new)
        logits, cache = predictor(new[None], cache[:, :, :, :, -2 * LENGTH :])
        new = np.argmax(logits[-1:] / 0.8 + rng.gumbel(size=logits[-1:].shape), axis=1)  # temperature 0.8
    return written


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--text", default="", help="a file; default: this library")
    parser.add_argument("--fp16", nargs="?", const="float16", default="float32", help="float16 or bfloat16")
    parser.add_argument("--sample", default="", help="text to continue, with the last checkpoint")
    parser.add_argument("--resume", action="store_true", help="continue from the last checkpoint")
    for name, value in (("max-epoch", 40), ("steps-per-epoch", 200), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--log-dir", default="train_log/transformer_lm")
    args = parser.parse_args(argv)
    text, train, held_out = get_data(args.text)
    if args.sample:
        print(sample(args, text))
        return
    logger.set_logger_dir(args.log_dir, action="k" if args.resume else "b")
    tf.disable_eager_execution()  # so that the next line seeds the graph
    tf.set_random_seed(args.seed)
    fix_rng_seed(args.seed)
    trainer = SimpleTrainer()
    config = (AutoResumeTrainConfig if args.resume else TrainConfig)(
        model=Model(len(text.characters), args.steps_per_epoch * args.max_epoch, args.fp16),
        data=QueueInput(train),
        callbacks=[ModelSaver(), InferenceRunner(held_out, ScalarStats("bits_per_character"))],
        steps_per_epoch=args.steps_per_epoch,
        max_epoch=args.max_epoch,
    )
    launch_train_with_config(config, trainer)
    figure = Figure(figsize=(4.8, 3.2))
    figure.subplots().plot(*zip(*trainer.monitors.get_history("validation_bits_per_character")))
    figure.savefig(f"{args.log_dir}/curve.png")


if __name__ == "__main__":
    main()
