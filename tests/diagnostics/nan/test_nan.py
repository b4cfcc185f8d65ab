"""TerminateOnNaN: a loss that is NaN ends training, and the error names the tensor where it began."""

from __future__ import annotations

import pytest
from fakes.trainers import run

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.nan.nan import TerminateOnNaN
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.train.base import Trainer


class Breaking(Trainer):
    """
    The weight w is 3, 2, 1, 0, -1: for w = 0, 1/w is infinite; `cost` = 1/w + 1, `other` = 5.

    Args:
        break_weight: after the third step, w becomes NaN.
        inside: compute the inverse inside a condition.
    """

    def __init__(self, break_weight=False, inside=False) -> None:
        super().__init__()
        w = tf.get_variable("w", initializer=3.0, use_resource=True)
        value = w.read_value()
        if inside:
            inverse = tf.cond(value < 10, lambda: 1.0 / tf.identity(value), lambda: value)
        else:
            inverse = tf.divide(1.0, tf.identity(value, name="copy"), name="inverse")
        cost = tf.add(inverse, 1.0, name="cost")
        tf.constant(5.0, name="other")
        tf.constant(1, name="integer")
        with tf.control_dependencies([cost]):
            step = -1.0 if not break_weight else tf.where(value < 2, float("nan"), -1.0)
            self.train_op = w.assign_add(step, read_value=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"not finite at global_step=4, epoch 2: cost = inf, other = 5. .* is 'inverse:0' \(RealDiv\)."),
        ({"break_weight": True}, "cost = nan.*is the variable 'w'"),
        ({"inside": True}, "cost = inf"),
    ],
    ids=["tensor", "variable", "condition"],
)
def test_the_error(options, message):
    """The error names the step, the epoch, every loss, and the first tensor or variable outside of conditions."""
    with pytest.raises(FloatingPointError, match=message):
        run(Breaking(**options), [TerminateOnNaN(["cost", "other"])], steps=3, epochs=2)


def test_an_input_is_named():
    """NaN in the data is attributed to the input; a loss with several values shows how many are not finite."""

    class Feeding(Trainer):
        def __init__(self) -> None:
            super().__init__()
            self.image = tf.placeholder(tf.float32, [2], name="image")
            self.train_op = tf.sqrt(self.image * 2, name="cost")

        def run_step(self) -> None:
            self.hooked_sess.run(self.train_op, feed_dict={self.image: [1.0, float("nan")]})

    with pytest.raises(FloatingPointError, match="cost = 1 of 2 values not finite.*the input 'image'"):
        run(Feeding(), [TerminateOnNaN("cost")])


def test_without_an_error(log_lines):
    """With fail=False, training ends without an error."""
    trainer = run(Breaking(), [TerminateOnNaN(fail=False)], steps=3, epochs=2)

    assert 4 == trainer.global_step
    assert 1 == len([x for x in log_lines if "stopped by StopTraining: TerminateOnNaN: loss is not finite" in x])


def test_a_good_training_goes_on():
    """Finite losses do not affect training."""
    assert 3 == run(Breaking(), [TerminateOnNaN(["cost", "other"])], steps=3, epochs=1).global_step


def test_wrong_arguments():
    """Empty names and a loss of integers raise ValueError."""
    with pytest.raises(ValueError, match="names is empty"):
        TerminateOnNaN([])
    with pytest.raises(ValueError, match="'integer' is of the wrong type .expected a floating-point tensor"):
        run(Breaking(), [TerminateOnNaN("integer")])


def test_several_updates_in_a_step():
    """If `run_step` runs several updates, which the trainer declares, none of them is made from a loss that is not finite."""

    class Alternating(Trainer):
        def __init__(self) -> None:
            super().__init__()
            self.weights = [tf.get_variable(name, initializer=4.0) for name in ("first", "second")]
            losses = [tf.log(weight - 3, name=f"loss_{weight.op.name}") for weight in self.weights]
            optimizer = tf.train.GradientDescentOptimizer(2.0)
            self.step_ops = [optimizer.minimize(loss, var_list=[weight]) for loss, weight in zip(losses, self.weights)]

        def run_step(self) -> None:
            for op in self.step_ops:
                self.hooked_sess.run(op)

    trainer, seen = Alternating(), []

    class Look(Callback):
        def _after_train(self):
            seen.extend(trainer.sess.run(trainer.weights))

    with pytest.raises(FloatingPointError, match="loss is not finite"):
        run(trainer, [TerminateOnNaN(["loss_first", "loss_second"]), Look()])
    assert [2.0, 4.0] == seen
