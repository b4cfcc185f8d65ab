"""
The same networks for each library: a convnet for MNIST, a ResNet of CIFAR size, an LSTM, ResNet-50, and a small linear layer.

The linear layer is for the cost of a step: a GPU computes it in about 20 us.
"""

from __future__ import annotations

import functools

import numpy as np

CLASSES, TOKENS, LENGTH, UNITS = 10, 64, 32, 128
WORKS = ("mnist", "resnet20", "lstm", "resnet50", "linear")
RATES = {"mnist": 1e-3, "lstm": 1e-3, "resnet20": 0.05, "resnet50": 0.05, "linear": 1e-3}


def num_samples(work):
    """Return the number of samples of a pass."""
    return 256 if work == "resnet50" else 10_000


def make_data(work, pixels=224):
    """
    Return the inputs and labels: random numbers of the right shape, float32 images (channels last) or int32 tokens.

    Args:
        pixels: height and width of the images of resnet50.
    """
    rng, num = np.random.RandomState(0), num_samples(work)
    if work == "lstm":
        tokens = rng.randint(TOKENS, size=[num, LENGTH + 1]).astype("int32")
        return tokens[:, :-1].copy(), tokens[:, 1:].copy()
    sizes = {"mnist": [28, 28, 1], "resnet20": [32, 32, 3], "resnet50": [pixels, pixels, 3]}
    sizes["linear"] = [UNITS]
    classes = 1000 if work == "resnet50" else CLASSES
    return rng.rand(num, *sizes[work]).astype("float32"), rng.randint(classes, size=num).astype("int32")


# Layers of tensorpack_lite, for the trainer and for the raw loop -------------------------------------------------------
def cost_of(work, x, label):
    """Return the cost of a network of our layers."""
    return cost_of_logits(logits_of(work, x), label)


def cost_of_logits(logits, label):
    """Return the mean cross entropy, named "cost"."""
    from tensorpack_lite.compat import tfv1 as tf

    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits), name="cost")


def logits_of(work, x):
    """Return the logits of a network of our layers."""
    builders = {
        "mnist": _mnist,
        "resnet20": _resnet20,
        "lstm": _lstm,
        "resnet50": _resnet50,
        "linear": _linear,
    }
    return builders[work](x)


def optimizer_of(work):
    """Return the optimizer: Adam; for ResNets SGD with momentum; for the linear layer SGD."""
    from tensorpack_lite.compat import tfv1 as tf

    if work == "linear":
        return tf.train.GradientDescentOptimizer(RATES[work])
    if work.startswith("resnet"):
        return tf.train.MomentumOptimizer(RATES[work], 0.9)
    return tf.train.AdamOptimizer(RATES[work])


def _mnist(x):
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.models import Conv2D, FullyConnected, MaxPooling

    for number in range(4):
        x = Conv2D(f"conv{number}", x, 32, 3, activation=tf.nn.relu)
        x = MaxPooling(f"pool{number}", x, 2) if number in (0, 2) else x
    return FullyConnected("fc1", FullyConnected("fc0", x, 512, activation=tf.nn.relu), CLASSES)


def _resnet20(x):
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.models import BatchNorm, Conv2D, FullyConnected, GlobalAvgPooling

    def conv(name, x, filters, strides=1, kernel=3):
        x = Conv2D(name, x, filters, kernel, strides=strides, use_bias=False)
        return BatchNorm(f"{name}_bn", x)

    x = tf.nn.relu(conv("conv0", x, 16))
    for stage, filters in enumerate([16, 32, 64]):
        for block in range(3):
            strides, name = (2 if stage and not block else 1), f"{stage}_{block}"
            shortcut = conv(f"{name}_shortcut", x, filters, strides, 1) if strides > 1 else x
            x = tf.nn.relu(conv(f"{name}_1", x, filters, strides))
            x = tf.nn.relu(conv(f"{name}_2", x, filters) + shortcut)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), CLASSES)


def _resnet50(x):
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.models import BatchNorm, Conv2D, FullyConnected, GlobalAvgPooling, MaxPooling

    def conv(name, x, filters, kernel, strides=1):
        x = Conv2D(name, x, filters, kernel, strides=strides, use_bias=False)
        return BatchNorm(f"{name}_bn", x)

    x = MaxPooling("pool0", tf.nn.relu(conv("conv0", x, 64, 7, 2)), 3, 2, padding="SAME")
    for stage, (filters, blocks) in enumerate(zip([64, 128, 256, 512], [3, 4, 6, 3])):
        for block in range(blocks):
            strides, name = (2 if stage and not block else 1), f"{stage}_{block}"
            shortcut = x if block else conv(f"{name}_shortcut", x, 4 * filters, 1, strides)
            x = tf.nn.relu(conv(f"{name}_1", x, filters, 1))
            x = tf.nn.relu(conv(f"{name}_2", x, filters, 3, strides))
            x = tf.nn.relu(conv(f"{name}_3", x, 4 * filters, 1) + shortcut)
    return FullyConnected("linear", GlobalAvgPooling("gap", x), 1000)


def _lstm(tokens):
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.models import LSTM, FullyConnected

    table = tf.get_variable("embedding", [TOKENS, UNITS], initializer=tf.random_uniform_initializer(-0.05, 0.05))
    outputs = LSTM("lstm", tf.gather(table, tokens), UNITS)[0]
    logits = FullyConnected("fc", tf.reshape(outputs, [-1, UNITS]), TOKENS)
    return tf.reshape(logits, tf.concat([tf.shape(tokens), [TOKENS]], 0))


def _linear(x):
    from tensorpack_lite.models import FullyConnected

    return FullyConnected("fc", x, CLASSES)


# Keras -----------------------------------------------------------------------------------------------------------------
def keras_model(keras, work, pixels=224, xla=False):
    """Return a compiled Keras model. `keras` is the package: Keras 3 or tf_keras."""
    layers = keras.layers
    build = {
        "mnist": _keras_mnist,
        "resnet20": _keras_resnet20,
        "lstm": _keras_lstm,
        "resnet50": functools.partial(_keras_resnet50, pixels=pixels),
        "linear": _keras_linear,
    }[work]
    model = build(keras, layers)
    sgd, adam = keras.optimizers.SGD, keras.optimizers.Adam
    optimizer = adam(RATES[work])
    if work.startswith("resnet") or work == "linear":
        optimizer = sgd(RATES[work], momentum=0.9 if work != "linear" else 0.0)
    options = {"jit_compile": True} if xla else {}
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return model


def _keras_mnist(keras, layers):
    parts = [keras.Input([28, 28, 1])]
    for number in range(4):
        parts.append(layers.Conv2D(32, 3, padding="same", activation="relu"))
        parts += [layers.MaxPooling2D(2)] if number in (0, 2) else []
    return keras.Sequential([*parts, layers.Flatten(), layers.Dense(512, "relu"), layers.Dense(CLASSES)])


def _keras_conv(layers, x, filters, kernel, strides=1):
    x = layers.Conv2D(filters, kernel, strides, padding="same", use_bias=False)(x)
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)


def _keras_resnet20(keras, layers):
    inputs = keras.Input([32, 32, 3])
    x = layers.ReLU()(_keras_conv(layers, inputs, 16, 3))
    for stage, filters in enumerate([16, 32, 64]):
        for block in range(3):
            strides = 2 if stage and not block else 1
            shortcut = _keras_conv(layers, x, filters, 1, strides) if strides > 1 else x
            x = layers.ReLU()(_keras_conv(layers, x, filters, 3, strides))
            x = layers.ReLU()(layers.add([_keras_conv(layers, x, filters, 3), shortcut]))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


def _keras_resnet50(keras, layers, pixels):
    return keras.applications.ResNet50(
        weights=None, classifier_activation=None, input_shape=[pixels, pixels, 3], include_top=True
    )


def _keras_linear(keras, layers):
    return keras.Sequential([keras.Input([UNITS]), layers.Dense(CLASSES)])


def _keras_lstm(keras, layers):
    lstm = layers.LSTM(UNITS, return_sequences=True)
    return keras.Sequential(
        [keras.Input([LENGTH], dtype="int32"), layers.Embedding(TOKENS, UNITS), lstm, layers.Dense(TOKENS)]
    )


# PyTorch ---------------------------------------------------------------------------------------------------------------
def torch_model(work):
    """Return a PyTorch module and its optimizer."""
    import torch

    model = {
        "mnist": _torch_mnist,
        "resnet20": _torch_resnet20,
        "lstm": _torch_lstm,
        "resnet50": _torch_resnet50,
        "linear": _torch_linear,
    }[work]()
    if work == "linear":
        return model, torch.optim.SGD(model.parameters(), RATES[work])
    if work.startswith("resnet"):
        return model, torch.optim.SGD(model.parameters(), RATES[work], momentum=0.9)
    return model, torch.optim.Adam(model.parameters(), RATES[work])


def _torch_mnist():
    from torch import nn

    parts = []
    for number in range(4):
        parts += [nn.Conv2d(1 if not number else 32, 32, 3, padding=1), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if number in (0, 2) else []
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(32 * 49, 512), nn.ReLU(), nn.Linear(512, CLASSES))


def _torch_block(sizes, strides):
    """Return a residual block. sizes: (channels, kernel) of the input and of each convolution."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            convolutions = []
            for number, ((before, _), (filters, kernel)) in enumerate(zip(sizes, sizes[1:])):
                stride = (
                    strides
                    if kernel == 3 and strides > 1 and not any(c.stride[0] > 1 for c in convolutions[::3])
                    else 1
                )
                convolutions += [
                    nn.Conv2d(before, filters, kernel, stride, kernel // 2, bias=False),
                    nn.BatchNorm2d(filters),
                ]
                convolutions += [nn.ReLU()] if number < len(sizes) - 2 else [nn.Identity()]
            self.body = nn.Sequential(*convolutions)
            first, last = sizes[0][0], sizes[-1][0]
            has_shortcut = strides > 1 or first != last
            self.shortcut = nn.Identity()
            if has_shortcut:
                self.shortcut = nn.Sequential(nn.Conv2d(first, last, 1, strides, bias=False), nn.BatchNorm2d(last))

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.shortcut(x))

    return Block()


def _torch_resnet20():
    from torch import nn

    parts, channels = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage, filters in enumerate([16, 32, 64]):
        for block in range(3):
            strides = 2 if stage and not block else 1
            parts.append(_torch_block([(channels, 0), (filters, 3), (filters, 3)], strides))
            channels = filters
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def _torch_resnet50():
    from torch import nn

    parts = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, (filters, blocks) in enumerate(zip([64, 128, 256, 512], [3, 4, 6, 3])):
        for block in range(blocks):
            strides = 2 if stage and not block else 1
            parts.append(_torch_block([(channels, 0), (filters, 1), (filters, 3), (4 * filters, 1)], strides))
            channels = 4 * filters
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def _torch_linear():
    from torch import nn

    return nn.Linear(UNITS, CLASSES)


def _torch_lstm():
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(TOKENS, UNITS), nn.LSTM(UNITS, UNITS, batch_first=True)
            self.linear = nn.Linear(UNITS, TOKENS)

        def forward(self, tokens):
            return self.linear(self.lstm(self.embedding(tokens))[0]).transpose(1, 2)

    return Model()
