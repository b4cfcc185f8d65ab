"""The networks of _peer_models.py in JAX with Flax and Optax, each with its compiled step."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from _peer_models import CLASSES, RATES, TOKENS, UNITS


class MNIST(nn.Module):
    @nn.compact
    def __call__(self, x):
        for number in range(4):
            x = nn.relu(nn.Conv(32, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), (2, 2)) if number in (0, 2) else x
        return nn.Dense(CLASSES)(nn.relu(nn.Dense(512)(x.reshape([len(x), -1]))))


class Linear(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(CLASSES)(x)


class LSTM(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        return nn.Dense(TOKENS)(nn.RNN(nn.OptimizedLSTMCell(UNITS))(nn.Embed(TOKENS, UNITS)(tokens)))


class ResNet(nn.Module):
    """ResNet-20 with basic blocks, or ResNet-50 with bottlenecks."""

    is_large: bool

    @nn.compact
    def __call__(self, x):
        def conv(x, filters, kernel, strides=1):
            x = nn.Conv(filters, (kernel, kernel), strides, use_bias=False)(x)
            return nn.BatchNorm(use_running_average=False, momentum=0.9)(x)

        if self.is_large:
            x = nn.max_pool(nn.relu(conv(x, 64, 7, 2)), (3, 3), (2, 2), padding="SAME")
            stages = zip([64, 128, 256, 512], [3, 4, 6, 3])
        else:
            x, stages = nn.relu(conv(x, 16, 3)), zip([16, 32, 64], [3, 3, 3])
        for stage, (filters, blocks) in enumerate(stages):
            for block in range(blocks):
                strides, outer = (2 if stage and not block else 1), filters * (4 if self.is_large else 1)
                changes = not block and (self.is_large or strides > 1)
                shortcut = conv(x, outer, 1, strides) if changes else x
                if self.is_large:
                    x = nn.relu(conv(nn.relu(conv(x, filters, 1)), filters, 3, strides))
                    x = conv(x, outer, 1)
                else:
                    x = conv(nn.relu(conv(x, filters, 3, strides)), filters, 3)
                x = nn.relu(x + shortcut)
        return nn.Dense(1000 if self.is_large else CLASSES)(x.mean([1, 2]))


def make_step(work, x):
    """Return a compiled function (state, x, label) -> (state, cost), and the first state."""
    models = {"mnist": MNIST(), "linear": Linear(), "lstm": LSTM(), "resnet20": ResNet(False), "resnet50": ResNet(True)}
    model, rate = models[work], RATES[work]
    optimizer = optax.adam(rate) if work in ("mnist", "lstm") else optax.sgd(rate, 0.9 if work != "linear" else None)
    variables = dict(model.init(jax.random.PRNGKey(0), x))
    params = variables.pop("params")

    def cost_of(params, others, x, label):
        logits, others = model.apply({"params": params, **others}, x, mutable=list(others))
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean(), others

    def step(state, x, label):
        params, others, slots = state
        (cost, others), grads = jax.value_and_grad(cost_of, has_aux=True)(params, others, x, label)
        updates, slots = optimizer.update(grads, slots)
        return (optax.apply_updates(params, updates), others, slots), cost

    return jax.jit(step, donate_argnums=0), (params, variables, optimizer.init(params))


def on_device(*arrays):
    """Return arrays of JAX."""
    return [jnp.asarray(np.ascontiguousarray(array)) for array in arrays]
