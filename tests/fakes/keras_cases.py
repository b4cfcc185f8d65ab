"""
Models of Keras 2 with constant weights and data for them. As a script: print what Keras itself evaluates, as JSON.

Keras computes other numbers without eager execution, so the script runs in a separate process.
"""

from __future__ import annotations

import json

import numpy as np

BATCH = 4  # of 10 samples, so the last batch has 2
RNG = np.random.RandomState(0)
FEATURES = RNG.randn(10, 3).astype("float32")
SEQUENCES = RNG.randn(10, 5, 2).astype("float32") * (np.arange(5) < RNG.randint(1, 6, [10, 1]))[:, :, None]
WORDS = RNG.randint(1, 7, [10, 5]) * (np.arange(5) < RNG.randint(1, 6, [10, 1]))
CLASSES = RNG.randint(0, 3, [10, 5])
TARGETS = RNG.randn(10).astype("float32")
WEIGHTS = RNG.rand(10).astype("float32")
ENTROPY = "sparse_categorical_crossentropy"

CASES = {  # input, target, weight, loss, metrics
    "plain": (FEATURES, TARGETS[:, None], None, "mse", ["mae"]),
    "regularized": (FEATURES, TARGETS[:, None], None, "mse", ["mae"]),
    "vector": (FEATURES, TARGETS, None, "mse", ["mae"]),
    "weighted": (FEATURES, TARGETS[:, None], WEIGHTS, "mse", ["mae"]),
    "masking": (SEQUENCES, CLASSES, None, ENTROPY, ["accuracy"]),
    "masking weighted": (SEQUENCES, CLASSES, WEIGHTS, ENTROPY, ["accuracy"]),
    "embedding": (WORDS, CLASSES, None, ENTROPY, ["accuracy"]),
}


def make_layers(keras, case):
    """Return the layers of a case."""
    layers = keras.layers

    def constant(seed):
        values = np.random.RandomState(seed)
        return lambda shape, dtype=None, **_: keras.backend.constant(values.randn(*shape), "float32")

    if case.startswith("masking"):
        return [layers.Masking(), layers.Dense(3, "softmax", kernel_initializer=constant(1))]
    if case == "embedding":
        kernels = {"kernel_initializer": constant(2), "recurrent_initializer": constant(3)}
        return [
            layers.Embedding(7, 4, mask_zero=True, embeddings_initializer=constant(4)),
            layers.SimpleRNN(3, return_sequences=True, **kernels),
            layers.Dense(3, "softmax", kernel_initializer=constant(1)),
        ]
    l2 = keras.regularizers.l2
    settings = {"kernel_regularizer": l2(0.1), "activity_regularizer": l2(0.01)} if case == "regularized" else {}
    return [layers.Dense(1, kernel_initializer=constant(1), **settings)]


def evaluate(keras, case):
    """Return the numbers of Keras over all samples."""
    x, target, weight, loss, metrics = CASES[case]
    model = keras.Sequential([keras.layers.InputLayer(x.shape[1:]), *make_layers(keras, case)])
    model.compile("sgd", loss, metrics)
    return model.evaluate(x, target, BATCH, 0, sample_weight=weight, return_dict=True)


if __name__ == "__main__":
    from tensorpack_lite.contrib.keras import import_keras

    module = import_keras()
    print(json.dumps({case: evaluate(module, case) for case in CASES}))
