"""Small models for tests of lint, and functions that apply its rules to them."""

from __future__ import annotations

import inspect

import numpy as np

from tensorpack_lite.callbacks.graph import RunUpdateOps
from tensorpack_lite.callbacks.inference import ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.diagnostics.lint.lint import lint_training
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.train.model_desc import ModelDesc
from tensorpack_lite.train.simple import SimpleTrainer

__all__ = ["Classifier", "images", "lint", "marked_line", "updates", "validation"]


class Classifier(ModelDesc):
    """
    A classifier of images [N, 8, 8, 3] into 10 classes.

    Args:
        get_cost: a function of the images and the labels that returns the cost.
        reads_rate: whether the optimizer reads the variable `learning_rate`, and not only its initial value.
        wrap: a function of the optimizer that returns another one.
    """

    def __init__(self, get_cost, reads_rate: bool = True, wrap=lambda optimizer: optimizer) -> None:
        super().__init__()
        self.get_cost, self.reads_rate, self.wrap = get_cost, reads_rate, wrap

    def inputs(self):
        return [TensorSpec([None, 8, 8, 3], tf.float32, "image"), TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        return tf.identity(self.get_cost(image, label), name="cost")

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        return self.wrap(tf.train.GradientDescentOptimizer(rate if self.reads_rate else 0.1))


def images(count: int = 40, label=lambda index: index % 10, scale: float = 1.0, shuffle: bool = True):
    """Return batches of 4 random images and their labels."""
    noise = np.random.RandomState(0).rand(count, 8, 8, 3).astype("float32") * np.float32(scale)
    return BatchData(DataFromList([[noise[k], label(k)] for k in range(count)], shuffle=shuffle), 4)


def validation(names=("cost",), **kwargs):
    """Return a runner that evaluates scalars of the model."""
    return InferenceRunner(images(), ScalarStats(list(names)), **kwargs)


def lint(get_cost, callbacks=(), init=None, trainer=None, ignore=(), model=None, make=FeedInput, **kwargs):
    """Build a training of a Classifier or another model, up to the session. Return the remarks of the rules about its graph."""
    model, trainer = model or Classifier(get_cost, **kwargs), trainer or SimpleTrainer()
    trainer.setup_graph(model.get_input_signature(), make(images()), model.build_graph, model.get_optimizer)
    trainer.setup_callbacks([*callbacks], [])
    return lint_training(trainer, SmartInit(init), "warn", ignore)


def updates() -> RunUpdateOps:
    """Return the callback that runs UPDATE_OPS, one of the default callbacks."""
    return RunUpdateOps()


def marked_line(function, mark: str = "# here") -> str:
    """Return `file:line` of the line of a function that ends with a mark. The file has no directory."""
    lines, first = inspect.getsourcelines(function)
    number = next(first + index for index, line in enumerate(lines) if line.rstrip().endswith(mark))
    return f"{inspect.getsourcefile(function).rpartition('/')[2]}:{number}"
