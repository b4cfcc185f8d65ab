"""Callback that looks for a learning rate, by a few steps with growing rates, before training continues unchanged."""

from __future__ import annotations

import math
import os
from typing import NamedTuple, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...tfutils.common import get_global_step_value
from ...tfutils.varmanip import kept_variables
from ...utils import logger
from ...utils.checks import check_count, check_positive, check_type
from ...utils.optional import load_optional
from .hyperparam import GraphVarParam, HyperParam

_MIN_POINTS = 8
_DIVERGED = 4.0  # times the lowest cost
_FALLEN = 0.9  # of the fall
_BELOW_MINIMUM = 3.0
_FLAT = 10.0  # from there to this many times the rate, the cost is about the same
# standard errors: the lowest of many smoothed costs is some errors below the first ones by chance
_SIGNIFICANT = 5.0


class LearningRateFinder(Callback):
    """
    Callback that proposes a learning rate after the first step of training, by `num_steps` more steps with rates that grow
    exponentially from `lowest` to `highest`. All variables are then put back, and training continues with its own rate.

    The proposal, which is logged, is the rate at which the smoothed cost has made nine tenths of its fall, but at most a
    third of the rate at which it is lowest. So it is never a rate at which the curve ends. There is no proposal, and the log
    says why, if the cost falls by less than five times its standard error, if it still falls between a tenth of `highest`
    and `highest`, or if it has already fallen at `lowest`.

    The steps end early when the cost is above the first one and 4 times its minimum, if this process trains alone. The costs
    are drawn in a picture, if matplotlib is installed. A resumed training looks for nothing, unless its checkpoint was
    saved before the search. The datapoints of these steps are used up.

    `tensorpack-lite find-lr train.py` does the same with a script, without training.

    Args:
        param: a `HyperParam`, or the name of a variable that the optimizer reads.
        lowest, highest: the first and the last rate.
        num_steps: the number of steps.
        cost: the name of a scalar tensor. None means the trainer's cost.
        picture: the file for the picture. None means `find-lr.png` in the logger's directory.

    Raises:
        TypeError: `param` has another type.
        ValueError: `lowest` is not positive or not less than `highest`; there are fewer than 20 steps; in `setup_graph`: the
            variable does not exist, or the trainer has no cost.

    Attributes:
        rates: the rates of the steps that were done.
        costs: the costs in these steps.
        proposal: the proposed rate; None before, and if there is none.
        reason: why there is none; "" before, and with a proposal.

    Runs at: setup_graph, trigger_step. In every process of a distributed training.

    Source: Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3, for the steps. fastai and Lightning
    propose the steepest point, or a tenth of the minimum's rate; single steps that fall by chance mislead the first one.
    """

    _chief_only = False

    def __init__(
        self,
        param: HyperParam | str = "learning_rate",
        lowest: float = 1e-6,
        highest: float = 10.0,
        num_steps: int = 100,
        cost: str | None = None,
        picture: str | None = None,
    ) -> None:
        if isinstance(param, str):
            param = GraphVarParam(param)
        expected = "a HyperParam or the name of a variable"
        self.param = check_type("LearningRateFinder: param", param, HyperParam, expected)
        self.lowest = check_positive("LearningRateFinder: lowest", lowest)
        if not highest > lowest:
            raise ValueError(
                f"LearningRateFinder: highest is too small (expected more than lowest={lowest}, got {highest})."
            )
        self.highest = highest
        self.num_steps = check_count("LearningRateFinder: num_steps", num_steps, 20)
        self._cost_name, self._picture = cost, picture and os.path.abspath(picture)
        self.rates: list[float] = []
        self.costs: list[float] = []
        self.proposal: float | None = None
        self.reason = ""
        self._has_begun = self._is_searching = False

    def _setup_graph(self) -> None:
        try:
            self.param.setup_graph()
        except ValueError as error:
            advice = "For a variable with another name, pass LearningRateFinder(param=...), or --variable to find-lr."
            raise ValueError(f"{error} {advice}") from error
        cost = self.trainer.cost
        if self._cost_name is not None:
            (cost,) = self.get_tensors_maybe_in_tower([self._cost_name])
        if cost is None:
            raise ValueError(
                "LearningRateFinder: the trainer has no cost. Pass the name of a scalar tensor: cost='...'."
            )
        self._args = tf.train.SessionRunArgs(cost)

    def _trigger_step(self) -> None:
        # All callbacks have begun by now, so those that look at runs are ready for more of them.
        if not self._has_begun and (not self.trainer.loop.is_resumed or self._is_owed()):
            self._search()
        self._has_begun = True

    def _is_owed(self) -> bool:
        """Return whether this is the first step of a resumed training, whose checkpoint was saved before the call of this callback."""
        return (self.epoch_num, self.local_step) == (1, 0)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._args if self._is_searching else None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        if self._is_searching:
            self._cost = float(run_values.results)

    def _search(self) -> None:
        logger.info(
            f"LearningRateFinder: {self.num_steps} steps with {self.param.readable_name} from {self.lowest:g} to "
            f"{self.highest:g}; then all variables are put back ..."
        )
        own = self.param.get_value()
        self._is_searching = True
        try:
            with kept_variables(self.trainer.sess):
                for rate in np.geomspace(self.lowest, self.highest, self.num_steps).tolist():
                    self.param.set_value(rate)
                    self.trainer.run_step()
                    self.rates.append(rate)
                    self.costs.append(self._cost)
                    if self.trainer.size == 1 and _has_diverged(self.costs):
                        break
        finally:
            self._is_searching = False
            self.param.set_value(own)
            self.trainer.loop.global_step = get_global_step_value()
        self.proposal, self.reason = propose_rate(self.rates, self.costs)
        if self.trainer.is_chief:
            self._report()

    def _report(self) -> None:
        if self.proposal is None:
            logger.warning(f"LearningRateFinder: no proposal, because {self.reason}")
        else:
            logger.info(f"LearningRateFinder: proposes {self.param.readable_name} = {self.proposal:.2g}.")
        directory = logger.get_logger_dir()
        if self._picture is None and directory is None:
            return
        path = self._picture or os.path.join(str(directory), "find-lr.png")
        try:
            self.draw(path)
        except ImportError as error:
            logger.info(f"LearningRateFinder: no picture. {error}")
        else:
            logger.info(f"LearningRateFinder: the costs are drawn in {path}.")

    def draw(self, path: str) -> None:
        """
        Draw the costs over the rates.

        Args:
            path: the picture, e.g. a .png file.

        Raises:
            ImportError: matplotlib is not installed.
            OSError: the file cannot be written.
        """
        figure = load_optional("matplotlib.figure", "LearningRateFinder").Figure(figsize=(7, 4))
        axes = figure.add_subplot()
        axes.plot(self.rates, self.costs, ".", markersize=4, color="0.7", label="cost of a step")
        num = _num_finite(self.costs)
        smoothed = smooth_costs(self.costs[:num])[0] if num else np.zeros(1)
        axes.plot(self.rates[:num], smoothed[:num], label="smoothed")
        if self.proposal is not None:
            axes.axvline(self.proposal, color="C1", linestyle="--", label=f"proposal {self.proposal:.2g}")
        # a cost that has diverged would hide the others
        low, high = float(smoothed.min()), float(smoothed[0])
        margin = 0.5 * max(high - low, 0.01 * abs(high), 1e-12)
        axes.set(xscale="log", ylim=(low - margin, high + margin))
        axes.set(xlabel=self.param.readable_name, ylabel="cost")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.tight_layout()
        figure.savefig(path)


class Proposal(NamedTuple):
    """
    The result of a search for a learning rate.

    Attributes:
        rate: the rate, or None.
        reason: why there is none, and what to do, as the end of a sentence; "" if there is one.
    """

    rate: float | None
    reason: str = ""


def smooth_costs(costs: np.ndarray | Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """
    Fit a line around each point, with the weights of a Gaussian whose standard deviation is 1/20 of `costs`.

    Args:
        costs: finite numbers; not empty.

    Returns:
        The value of each line at its point, and its standard error, float64 [N] each.
    """
    y = _without_explosion(costs)
    distance = np.arange(len(y))[None] - np.arange(len(y))[:, None]
    weights = np.exp(-0.5 * (distance / max(1.0, len(y) / 20)) ** 2)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * distance).sum(axis=1, keepdims=True)
    variance = (weights * distance**2).sum(axis=1, keepdims=True) - mean**2
    weights *= 1 - (distance - mean) * mean / np.maximum(variance, 1e-12)
    smoothed = weights @ y
    fallen = max(int(np.argmin(smoothed)), len(y) // 3)  # what follows the minimum scatters more
    scatter = 1.4826 * np.median(np.abs(y - smoothed)[: fallen + 1])  # a standard deviation, without outliers
    return smoothed, scatter * np.sqrt((weights**2).sum(axis=1))


def propose_rate(rates: Sequence[float], costs: Sequence[float]) -> Proposal:
    """
    Return the rate at which the smoothed cost has made nine tenths of its fall, or a third of the rate at which it is lowest
    if that is less.

    Args:
        rates: rates that grow exponentially.
        costs: the costs in steps with these rates. Those from the first one on that is not finite do not count.
    """
    num = _num_finite(costs)
    if num < _MIN_POINTS:
        return Proposal(
            None,
            f"only {num} costs before the first NaN or infinite one are too few. Begin with a lower rate.",
        )
    y = _without_explosion(costs[:num])
    smoothed, errors = smooth_costs(y)
    lowest, beginning = int(np.argmin(smoothed)), max(num // 10, 3)
    first = y[:beginning].mean()
    fall = first - smoothed[lowest]
    error = math.hypot(errors[lowest], errors.mean())
    if not fall > max(_SIGNIFICANT * error, 1e-12 * abs(first)):
        rise = float(np.median(y[num // 2 :]) - first)
        return Proposal(None, _why_not(float(fall), rise, error))
    above = np.flatnonzero(smoothed[:lowest] > first - _FALLEN * fall)
    fallen = rates[int(above[-1])] if len(above) else rates[0]
    is_at_end = lowest >= num - max(num // 20, 2) and num == len(costs) and not _has_diverged(costs)
    if is_at_end and fallen > rates[-1] / _FLAT:
        return Proposal(None, f"the cost still falls at the highest rate, {rates[-1]:.2g}. End with a higher rate.")
    rate = min(fallen, rates[lowest] / _BELOW_MINIMUM)
    if rate <= rates[beginning]:
        return Proposal(
            None,
            f"the cost has already fallen at the first rates, from {rates[0]:.2g} on. Begin with a lower rate.",
        )
    return Proposal(float(rate))


def _why_not(fall: float, rise: float, error: float) -> str:
    """Return the reason why costs that fall and rise by these values have no proposal."""
    if rise > _SIGNIFICANT * error:
        return "the cost rises at all rates. Begin with a lower rate."
    return (
        f"the smoothed cost falls by {max(fall, 0.0):.2g} only, and its standard error is {error:.2g}. "
        "Use more steps or a larger batch."
    )


def _without_explosion(costs: np.ndarray | Sequence[float]) -> np.ndarray:
    """Return costs that are at most the highest of the first ones, or those of a model that diverges would dominate all near them."""
    y = np.asarray(costs, np.float64)
    return np.minimum(y, y[:_MIN_POINTS].max())


def _num_finite(costs: Sequence[float]) -> int:
    """Return the number of costs before the first one that is not finite."""
    return int(np.cumprod(np.isfinite(costs)).sum())


def _has_diverged(costs: Sequence[float]) -> bool:
    if not math.isfinite(costs[-1]):
        return True
    medians = [float(np.median(costs[end - 3 : end])) for end in range(3, len(costs) + 1)]
    if not medians:
        return False
    lowest = min(medians)
    return medians[-1] > max(medians[0], lowest + (_DIVERGED - 1) * abs(lowest))
