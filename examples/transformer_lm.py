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
LAYERS, HEADS, UNITS = 4, 4, 128
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
        (batch, length), initializer = tf.unstack(tf.shape(text)), tf.random_normal_initializer
        # what the attention of each layer has seen before; only sampling feeds it
        cache = tf.placeholder_with_default(
            tf.zeros([batch, LAYERS, 0, UNITS]), [None, LAYERS, None, UNITS], name="cache"
        )
        past, caches = tf.shape(cache)[2], []
        distance = tf.cast(tf.range(past, past + length)[:, None] - tf.range(past + length), tf.float32)
        bias = -SLOPE * tf.abs(distance - PREFERRED)
        embedding = tf.get_variable("embedding", [self.num_characters, UNITS], initializer=initializer())
        x = tf.cast(tf.nn.embedding_lookup(embedding, tf.reshape(text, [-1])), self.dtype)  # [N T, UNITS]
        layers, init = [FullyConnected, MultiHeadAttention], initializer(stddev=0.02)
        with varreplace.custom_getter_scope(get_float32), argscope(layers, kernel_initializer=init):
            for k in range(LAYERS):
                with tf.variable_scope(f"layer{k}"):
                    y = tf.reshape(LayerNorm("ln0", x), [batch, length, UNITS])
                    caches.append(tf.concat([tf.cast(cache[:, k], self.dtype), y], axis=1))
                    y = MultiHeadAttention("attention", y, HEADS, value=caches[k], causal=True, score_bias=bias)
                    x += tf.reshape(y, [-1, UNITS])
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
    rng, cache = np.random.RandomState(args.seed), np.zeros([1, LAYERS, 0, UNITS], "float32")
    new, written = text.encode(args.sample), ""  # the first call reads it all, later ones a character
    for _ in range(300):
        written += "".join(text.characters[number] for number in new)
        logits, cache = predictor(new[None], cache[:, :, -2 * LENGTH :])
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
