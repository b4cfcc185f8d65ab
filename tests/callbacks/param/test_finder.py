"""LearningRateFinder: its proposal, and that it changes nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fakes.quadratic import QuadraticTrainer
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.ema import EMAWeights
from tensorpack_lite.callbacks.param.finder import LearningRateFinder, propose_rate, smooth_costs
from tensorpack_lite.callbacks.param.setter import HyperParamSetterWithFunc
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.steps import ProgressBar
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train.base import Trainer
from tensorpack_lite.train.config import AutoResumeTrainConfig

RATES = np.geomspace(1e-6, 10, 100)


class Descent(Trainer):
    """
    Minimizes (x - 3)^2 / 2 by gradient descent with the rate in the variable `learning_rate`, with momentum 0.9.

    The cost falls if the rate is below 2 * (1 + 0.9), and diverges above.
    """

    def __init__(self, rate=0.1):
        super().__init__()
        self.x = tf.get_variable("x", initializer=0.0, use_resource=True)
        self.rate = tf.get_variable("learning_rate", initializer=rate, trainable=False, use_resource=True)
        self.cost = tf.identity((self.x - 3.0) ** 2 / 2, name="cost")
        optimizer = tf.train.MomentumOptimizer(self.rate, 0.9)
        self.train_op = optimizer.minimize(self.cost, name="train_op")


def curve(noise=0.0, seed=0, knee=1e-3):
    """Return costs that fall around a rate, and rise from 100 times that rate on, with normal noise."""
    ratio = RATES / knee
    return 0.3 + 2 / (1 + ratio) + 2 * (ratio / 100) ** 2 + np.random.RandomState(seed).normal(0, noise, 100)


@pytest.mark.parametrize("knee", [1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_the_proposal_is_between_the_fall_and_the_minimum(noise, knee):
    """The proposal is above the rate where half of the fall is made, and at most about a third of the minimum's, for each seed."""
    minimum = RATES[np.argmin(curve(knee=knee))]
    for seed in range(8):
        rate, reason = propose_rate(RATES, curve(noise, seed, knee))
        assert "" == reason
        assert knee < rate < minimum / 2


@pytest.mark.parametrize("shift", [0.0, -100.0])
def test_the_proposal_does_not_depend_on_the_level(shift):
    """A constant that is added to all costs changes nothing, also if they become negative."""
    assert propose_rate(RATES, curve()) == propose_rate(RATES, curve() + shift)


@pytest.mark.parametrize("distribution", ["normal", "uniform", "laplace"])
def test_noise_has_no_proposal(distribution):
    """Costs that only scatter have no proposal, and the reason has the fall and its error."""
    for seed in range(20):
        costs = 2 + getattr(np.random.RandomState(seed), distribution)(size=100)
        rate, reason = propose_rate(RATES, costs)
        assert rate is None
        assert re.search("falls by .* only, and its standard error is .* Use more steps", reason)


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (RATES < 2e-3, "the cost still falls at the highest rate, 0.0018. End with a higher rate."),
        (RATES > 5e-2, "has already fallen at the first rates|rises at all rates|Use more steps"),
        (RATES > 0.3, "rises at all rates. Begin with a lower rate"),
    ],
    ids=["end", "beginning", "above"],
)
def test_no_proposal_where_the_curve_ends(noise, select, expected):
    """A curve that is cut off in its fall, or begins behind it, has no proposal, and the reason shows where to search."""
    for seed in range(8):
        rate, reason = propose_rate(RATES[select], curve(noise, seed)[select])
        assert rate is None
        assert re.search(expected, reason), reason


def test_a_cost_that_does_not_rise():
    """If the cost stays low up to the end, the proposal is where most of the fall is made."""
    rate, _ = propose_rate(RATES, 2 / (1 + RATES / 1e-3) + np.random.RandomState(0).normal(0, 0.02, 100))
    assert 3e-3 < rate < 3e-2


@pytest.mark.parametrize("last", [np.nan, np.inf, 1e9])
def test_a_sudden_end_is_far_away(last):
    """If the cost explodes from one step to the next, the proposal is at most a third of the rate before."""
    costs = np.minimum(curve(0.05), curve()[50])
    end = 70
    costs[end:] = last
    rate, _ = propose_rate(RATES, costs)
    assert 1e-3 < rate <= RATES[end - 1] / 3


@pytest.mark.parametrize(
    "costs",
    [np.ones(100), np.linspace(1, 2, 100), np.full(100, np.nan), np.array([2.0, 1.0]), np.zeros(20)],
)
def test_no_proposal(costs):
    """Costs that never fall, that are not finite, or that are too few have no proposal."""
    rate, reason = propose_rate(RATES[: len(costs)], costs)
    assert rate is None
    assert reason.endswith(".")


def test_costs_after_nan_do_not_count():
    """The proposal comes from the costs before the first NaN."""
    costs = curve()
    costs[80:] = np.nan
    assert propose_rate(RATES, costs).rate == pytest.approx(propose_rate(RATES[:80], costs[:80]).rate)


def test_smoothing_keeps_a_line():
    """The smoothed values of a line are the line, also at its ends, without an error."""
    values, errors = smooth_costs(np.linspace(5.0, 1.0, 41).tolist())
    np.testing.assert_allclose(values, np.linspace(5.0, 1.0, 41), rtol=1e-9)
    np.testing.assert_allclose(errors, np.zeros(41), atol=1e-9)


def test_the_error_of_smoothed_costs():
    """The standard errors of smoothed noise are those of the smoothed values over many curves."""
    results = [smooth_costs(np.random.RandomState(seed).normal(-50, 1, 60)) for seed in range(200)]
    values, errors = map(np.array, zip(*results))
    found = values[:, [10, 30, 50]].std(axis=0)
    np.testing.assert_allclose(found, errors.mean(axis=0)[[10, 30, 50]], rtol=0.25)


class TestInATraining:
    def variables(self, callbacks, steps=3):
        """Train, and return all variables at the end."""
        values = {}

        def remember(self):
            values.update({v.op.name: self.trainer.sess.run(v) for v in tf.global_variables()})

        with tf.Graph().as_default():
            trainer = run(Descent(), [*callbacks, CallbackFactory(trigger=remember)], steps=steps, epochs=2)
        return trainer, values

    @pytest.mark.slow
    def test_the_training_is_the_same_with_it(self):
        """All variables, optimizer slots, averages and the step included, end as in a training without the callback."""
        _, expected = self.variables([EMAWeights(), ProgressBar()])
        finder = LearningRateFinder(highest=10.0)
        trainer, found = self.variables([finder, EMAWeights(), ProgressBar()])

        assert set(expected) == set(found)
        for name, value in expected.items():
            np.testing.assert_array_equal(value, found[name], err_msg=name)
        assert 6 == trainer.global_step
        assert 0.001 < finder.proposal < 4

    def test_the_rates_grow_until_the_cost_diverges(self):
        """The rates are a geometric sequence from `lowest`, and end before `highest` if the cost explodes."""
        finder = LearningRateFinder(lowest=1e-3, highest=1e3, num_steps=61)
        self.variables([finder])
        np.testing.assert_allclose(finder.rates, np.geomspace(1e-3, 1e3, 61)[: len(finder.rates)])
        assert 20 < len(finder.rates) == len(finder.costs) < 60

    @pytest.mark.slow
    def test_a_schedule_goes_on(self):
        """The rate is put back, and a schedule by steps sets the values that it sets without the callback."""
        for callbacks in ([], [LearningRateFinder()]):
            setter = HyperParamSetterWithFunc("learning_rate", lambda step, _: 0.1 / (1 + step), step_based=True)
            _, values = self.variables([*callbacks, setter])
            assert pytest.approx(0.1 / 7) == values["learning_rate"]

    @pytest.mark.slow
    def test_the_picture(self, log_dir, log_lines):
        """The picture is in the logger's directory, and its path in the log."""
        pytest.importorskip("matplotlib")
        self.variables([LearningRateFinder()])
        content = Path(log_dir, "find-lr.png").read_bytes()
        assert content.startswith(b"\x89PNG")
        assert any("the costs are drawn in" in line for line in log_lines)

    def test_a_resumed_training_looks_for_nothing(self, log_dir):
        """A training that resumes begins with its own rate, and does no additional step."""
        with tf.Graph().as_default():
            run(Descent(), [ModelSaver()], epochs=1)
        config = AutoResumeTrainConfig(steps_per_epoch=2, max_epoch=2)
        finder = LearningRateFinder()
        with tf.Graph().as_default():
            start, init = config.starting_epoch, config.session_init
            run(Descent(), [finder, ModelSaver()], epochs=2, starting_epoch=start, session_init=init)
        assert [] == finder.rates
        assert 4 == load_checkpoint_vars(f"{log_dir}/model-4")["global_step"]

    def test_several_ranks_do_all_steps(self):
        """A process that trains with others does all steps, because another process may have a cost that diverges later."""
        finder = LearningRateFinder(lowest=1e-3, highest=1e3, num_steps=61)
        with tf.Graph().as_default():
            trainer = Descent()
            trainer.size = 2
            run(trainer, [finder])
        assert 61 == len(finder.rates)


def test_without_the_variable_or_the_cost():
    """A training without the variable, or without a cost, ends before its first step with an error that explains what to do."""
    match = r"'learning_rate' is not a variable.*tf.train.AdamOptimizer\(rate\).*LearningRateFinder\(param=.*--variable"
    with tf.Graph().as_default(), pytest.raises(ValueError, match=match):
        run(QuadraticTrainer(), [LearningRateFinder()])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="the trainer has no cost. Pass the name"):
        trainer = CountingTrainer()
        tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        run(trainer, [LearningRateFinder()])


def test_a_cost_by_name():
    """The cost can be named where the trainer has none."""
    with tf.Graph().as_default():
        trainer = CountingTrainer()
        tf.get_variable("learning_rate", initializer=0.1, trainable=False)
        finder = LearningRateFinder(cost="cost", num_steps=20)
        run(trainer, [finder])
    assert [10.0 * step for step in range(1, 21)][: len(finder.costs)] == finder.costs
