"""Minimal trainers for tests of callbacks. They are complete trainers with a trivial model."""

from __future__ import annotations

from fakes.models import Mean, threes

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import TrainTowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc
from tensorpack_lite.train.base import Trainer
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.train.tower import TowerTrainer


def run(trainer, callbacks=(), monitors=(), steps=2, epochs=2, starting_epoch=1, session_init=None):
    """Train with exactly these callbacks and monitors. Return the trainer."""
    trainer.train_with_defaults(
        callbacks=list(callbacks),
        monitors=list(monitors),
        extra_callbacks=[],
        steps_per_epoch=steps,
        starting_epoch=starting_epoch,
        max_epoch=epochs,
        session_init=session_init,
    )
    return trainer


def launch(trainer=None, kind=TrainConfig, **arguments):
    """Train in a new graph with a config of this kind; by default `Mean` on threes, for a step. Return the trainer."""
    trainer = trainer or SimpleTrainer()
    arguments = {"model": Mean(), "steps_per_epoch": 1, "max_epoch": 1, **arguments}
    if "data" not in arguments:
        arguments.setdefault("dataflow", threes())
    with tf.Graph().as_default():
        launch_train_with_config(kind(**arguments), trainer)
    return trainer


class Killed(BaseException):
    """Raised to end a training at once, as if its process had been killed."""


def run_resumed(trainer, callbacks, monitors, steps, epochs, **kwargs):
    """Train from the last checkpoint, as `AutoResumeTrainConfig` finds it. Return the trainer, with `is_killed` set."""
    config = AutoResumeTrainConfig(steps_per_epoch=steps, max_epoch=epochs, **kwargs)
    trainer.is_killed = False
    try:
        run(trainer, callbacks, monitors, steps, epochs, config.starting_epoch, config.session_init)
    except Killed:
        trainer.is_killed = True
    return trainer


class CountingTrainer(Trainer):
    """
    Each step adds 1 to the variable `x`. The tensor `cost` is x * 10, with the value of x before the step.

    Args:
        runs_per_step: how often each step runs the hooked session.
    """

    def __init__(self, runs_per_step: int = 1) -> None:
        super().__init__()
        self._runs_per_step = runs_per_step
        x = tf.get_variable("x", initializer=0.0, use_resource=True)
        cost = tf.multiply(x.read_value(), 10.0, name="cost")
        with tf.control_dependencies([cost]):
            self.train_op = x.assign_add(1.0, read_value=False)

    def run_step(self) -> None:
        for _ in range(self._runs_per_step):
            self.hooked_sess.run(self.train_op)


class ScalingTrainer(TowerTrainer):
    """
    Trains a model with one weight, `scale/w`. For the input `x` [None], `y` = x * w and `cost` = mean(y). Each step adds 1
    to w, which is initially 1.

    Args:
        names: names of the training towers.
        build: called inside each tower, after the rest of the model.
    """

    def __init__(self, names=("",), build=None) -> None:
        super().__init__()

        def model(x):
            with tf.variable_scope("scale"):
                weight = tf.get_variable("w", initializer=1.0)
            y = tf.multiply(x, weight, name="y")
            if build is not None:
                build()
            return tf.reduce_mean(y, name="cost")

        self.tower_func = TowerFunc(model, [tf.TensorSpec([None], tf.float32, "x")])
        for index, name in enumerate(names):
            with tf.variable_scope(tf.get_variable_scope(), reuse=index > 0):
                with TrainTowerContext(name, index=index, total=len(names)):
                    self.tower_func(tf.constant([1.0, 3.0]))
        weight = next(v for v in tf.trainable_variables() if v.op.name == "scale/w")
        self.train_op = weight.assign_add(1.0, read_value=False)
