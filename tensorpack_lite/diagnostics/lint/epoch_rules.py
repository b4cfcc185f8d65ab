"""Rules about the first epoch, whose numbers show what the graph does not: G29, T03 and T04."""

from __future__ import annotations

import math
import re
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ...callbacks.param.setter import HyperParamSetter
from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...tfutils.dependency import operations_needed, operations_of_fetches
from ...utils.direction import certain_direction
from ..data_check.remarks import Remark
from .graph_view import constant_of, remark_on
from .plans import known_plans
from .rate_rules import find_rates, variable_behind
from .signed_loss import SignedLoss, find_signed_loss
from .training import ExaminedTraining
from .variable_rules import is_average

_NUM_COSTS = 20  # at the beginning of the epoch, and at its end
_FEWEST_STEPS = 100
_CHANCE = 0.99  # of the cross entropy of equal probabilities
_LEARNT = 0.8
_CHANCE_OF_CLASSES = 1.1  # times that of guessing
_WORSE, _ERRORS = 1.1, 3.0  # times the first costs, and standard errors
# times the cross entropy of chance: a fall that shows learning, and costs from which falling shows nothing
_SLOW, _FAR = 0.05, 2.0
_FALLEN = 1e-3  # of a rate in its first epoch
_READS = ("ReadVariableOp", "VarHandleOp", "VariableV2")
_RATIO = re.compile(r"(?<![a-z])(acc|accuracy|err|error|incorrect|wrong)s?\d*(?![a-z])")


def negated_cross_entropy(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G29: the cost falls when the cross entropy grows.

    Why: a minus sign is missing, as in `mean(label * log(p))`, or there is one too many. Training unlearns what it is to learn.

    Does not report costs of several losses, such as that of an adversary, or with weights that may be negative.

    Source: costs that fall below 0 without end.
    """
    for loss in find_loss(training):
        if not loss.is_negated:
            continue
        text = "the cost is a cross entropy with the wrong sign: it falls when predictions get worse."
        yield remark_on(
            "G29", loss.op, text, "Minimize -mean(sum(label * log(p))), or the result of a tf.nn function as it is."
        )


def find_loss(training: ExaminedTraining) -> Iterator[SignedLoss]:
    """Yield the cross entropy that the cost is; nothing if it is anything else."""
    trainable = {variable.op.name for variable in tf.trainable_variables()}
    loss = find_signed_loss(training.graph, training.cost, trainable)
    if loss is not None:
        yield loss


class FirstEpoch(Callback):
    """
    Callback that examines the first epoch of a training that is not resumed. `Lint` registers it.

    Attributes:
        loss: the cross entropy whose costs are known; None without one.
        first, last: the cross entropies of the first and the last 20 steps; empty if they are not known.

    Runs at: before_train, after_epoch, before_epoch, after_train.
    """

    def __init__(self) -> None:
        self.loss: SignedLoss | None = None
        self.first: list[float] = []
        self.last: list[float] = []
        self._training: ExaminedTraining | None = None
        self._apply: Callable[..., None] | None = None
        self._is_over = False
        self._rates: list[Any] = []
        self._values: list[list[float]] = []  # of the rates, at the beginning and end of the epoch

    def begin(self, training: ExaminedTraining, losses: list[SignedLoss], apply: Callable[..., None]) -> None:
        """
        Examine the first epoch of a training.

        Args:
            training: the training, before its session is created.
            losses: the result of `find_loss`.
            apply: takes a rule and its arguments, and reports the remarks of the rule.
        """
        self._training, self._apply = training, apply

    def _before_train(self) -> None:
        if self.trainer.loop.is_resumed:
            self._apply = None

    def _after_epoch(self) -> None:
        if self._is_over:
            self._judge_rates()
        else:
            self._read_rates()
            self._is_over = True

    def _before_epoch(self) -> None:
        if not self._is_over:
            self._rates = [] if self._training is None else rates_to_watch(self._training)
            self._read_rates()
        self._end(first_epoch, rates_of_zero)

    def _after_train(self) -> None:
        self._end(first_epoch)

    def _read_rates(self) -> None:
        if self._apply is not None and self._rates:
            self._values.append([float(value) for value in self.trainer.sess.run(self._rates)])

    def _end(self, *rules: Callable[..., Iterator[Remark]]) -> None:
        if self._is_over and self._apply is not None:
            for rule in rules:
                self._apply(rule, self._training, self)
            self._training = None
            if not self.fallen_rates():
                self._apply = None

    def fallen_rates(self) -> list[tuple[Any, float, float]]:
        """Return the rates of which almost nothing is left at the end of the epoch, with their values at its beginning and end."""
        rows = zip(self._rates, *self._values) if len(self._values) == 2 else ()
        return [row for row in rows if 0 < abs(row[2]) < _FALLEN * abs(row[1])]

    def _judge_rates(self) -> None:
        if self._apply is not None:
            self._apply(falling_rates, self)
            self._apply = None


class FirstEpochCost(FirstEpoch):
    """
    FirstEpoch of a trainer with a cost.

    If the cost is one cross entropy, it fetches the cost of the first and the last 20 steps of the epoch, unless this would change
    anything: take data, or run an operation with state, that the steps do not run.

    Runs at: as FirstEpoch; before_run and after_run (in these steps).
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_checked = False

    def begin(self, training: ExaminedTraining, losses: list[SignedLoss], apply: Callable[..., None]) -> None:
        """Examine the first epoch of a training; see FirstEpoch."""
        super().begin(training, losses, apply)
        if training.cost.shape.ndims == 0:
            known = [loss for loss in losses if not loss.is_negated and not _changes_anything(loss.others, ())]
            self.loss = next(iter(known), None)
        self._args = tf.train.SessionRunArgs([training.cost, *(self.loss.others if self.loss else ())])

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        if self._is_over and self.local_step == 2:  # what sets a rate at the beginning of an epoch has done so
            self._judge_rates()
        if self._apply is None or self.loss is None or self._is_over:
            return None
        if not self._is_checked:
            self._is_checked = True
            if _changes_anything(self._args.fetches, ctx.original_args.fetches):
                self.loss = None
                return None
        step, steps = self.local_step, self.trainer.steps_per_epoch
        return self._args if step < _NUM_COSTS or step >= max(_FEWEST_STEPS, steps) - _NUM_COSTS else None

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        if run_values.results is None:
            return
        cost = float(run_values.results[0] - sum(run_values.results[1:]))
        (self.first if self.local_step < _NUM_COSTS else self.last).append(cost)
        # a difference of large numbers may be negative because it is rounded
        if max(cost, run_values.results[0]) < 0 and self._apply is not None:
            self._apply(negative_cross_entropy, self, cost)
            self.loss = None


def _changes_anything(tensors: Sequence[tf.Tensor], fetches: object) -> bool:
    """Return whether a run that also computes some tensors may have other effects than one of the fetches alone."""
    known = {op.name for op in operations_of_fetches(fetches)}
    added = [op for op in operations_needed(tensors) if op.name not in known and op.type not in _READS]
    return any(op.type == "Placeholder" or (op.op_def is not None and op.op_def.is_stateful) for op in added)


def negative_cross_entropy(epoch: FirstEpoch, cost: float) -> Iterator[Remark]:
    """
    T03: the cost of a step is a cross entropy, and is negative.

    Why: a cross entropy of labels from 0 to 1 is at least 0. With other labels, it falls for as long as the logits grow.

    Args:
        epoch: the callback that has seen the cost.
        cost: the cost without terms that do not depend on the data.

    Source: labels -1 and 1 in a sigmoid cross entropy.
    """
    if epoch.loss is not None:
        text = f"the cost is a cross entropy, but it is {cost:.3g}, so labels are not in [0, 1]."
        yield remark_on("T03", epoch.loss.op, text, "Look at the labels of a datapoint; one-hot labels are 0 or 1.")


def first_epoch(training: ExaminedTraining, epoch: FirstEpoch) -> Iterator[Remark]:
    """
    T04: after the first epoch, the cross entropy is larger than at the beginning, or not below that of equal probabilities; or
    validation is as bad as chance although training is not.

    Why: the model does not learn, e.g. because the learning rate is too large or too small, or labels and samples do not
    belong together. Or training and validation differ, in their data or in the moving averages of batch normalization.

    Compares the costs of the first and last 20 steps. Does not report epochs of fewer than 100 steps, or costs that are
    not the mean of one cross entropy plus terms without data.

    Args:
        training: the training.
        epoch: the callback that has seen the costs.

    Source: neural-net-checklist.
    """
    if epoch.loss is None or len(epoch.last) < _NUM_COSTS or not np.isfinite(epoch.first + epoch.last).all():
        return
    first, last = float(np.mean(epoch.first)), float(np.mean(epoch.last))
    start = epoch.first[0] if first > 2 * epoch.first[0] else first  # a rate too large makes the next costs huge
    error = math.hypot(np.std(epoch.first), np.std(epoch.last)) / math.sqrt(_NUM_COSTS)
    chance = _cost_of_chance(epoch.loss)
    advice = "Look at the learning rate, at the labels, and whether they belong to the samples; try lint='deep'."
    if last > _WORSE * first and last - first > _ERRORS * error:
        text = f"after the first epoch, the cross entropy is {last:.3g}, and it was {first:.3g} at the beginning."
        yield remark_on("T04", epoch.loss.op, text, advice)
    elif chance and last >= _CHANCE * chance and not _is_learning(start, last, error, chance):
        text = (
            f"after the first epoch, the cross entropy is {last:.3g}, and that of equal probabilities is {chance:.3g}."
        )
        yield remark_on("T04", epoch.loss.op, text, advice)
    elif chance and last < _LEARNT * chance and epoch.loss.loss is not None and not epoch.loss.is_sigmoid:
        yield from _validation_by_chance(training, epoch.loss.loss.logits.shape.as_list()[-1], last)


def _is_learning(first: float, last: float, error: float, chance: float) -> bool:
    """Return whether costs that are still above that of chance have fallen enough to show that something is learnt."""
    if _WORSE * chance <= last <= first / _WORSE:
        return True
    return first < _FAR * chance and first - last > max(_ERRORS * error, _SLOW * chance)


def _cost_of_chance(loss: SignedLoss) -> float:
    """Return the cross entropy of equal probabilities; 0 if it is not known."""
    if not loss.is_mean or loss.loss is None:
        return 0.0
    shape = loss.loss.logits.shape
    num_classes = 2 if loss.is_sigmoid else shape.as_list()[-1] if shape.rank else None
    return math.log(num_classes or 1)


def _validation_by_chance(training: ExaminedTraining, num_classes: int, cost: float) -> Iterator[Remark]:
    monitors = training.trainer.monitors
    for name in dict.fromkeys(name for runner in training.runners for name in runner.reported_names):
        direction = certain_direction(name) if _RATIO.search(name.lower()) else 0
        history = monitors.get_history(name)
        if not direction or not history:
            continue
        accuracy = history[-1][1] if direction > 0 else 1 - history[-1][1]
        if 0 <= accuracy <= _CHANCE_OF_CLASSES / num_classes:
            text = (
                f"{name} is {history[-1][1]:.3g} after the first epoch, as if one of {num_classes} classes were guessed, but the "
                f"cross entropy of training has fallen to {cost:.3g}."
            )
            others = ", and look at BatchNorm and its updates" if any(map(is_average, tf.global_variables())) else ""
            yield Remark("T04", name, text, f"Compare a datapoint of validation with one of training{others}.")


def rates_of_zero(training: ExaminedTraining, _: FirstEpoch) -> Iterator[Remark]:
    """
    T04: when the second epoch begins, a learning rate is 0.

    Why: a callback has set it to 0, e.g. by a division of integers, or has not set it yet; or a decay by steps is over.

    Args:
        training: the training.

    Source: rates that a function of the script computes.
    """
    found = [(rate, variable_behind(rate)) for rate in find_rates(training)]
    computed = [rate for rate, variable in found if variable is None and _is_of_variables(training, rate)]
    rates = [*(variable for _, variable in found if variable is not None), *computed]
    zeros = [rate for rate in rates if not np.any(training.trainer.sess.run(rate))]
    if zeros:
        text = "the learning rate is 0 after the first epoch, so the updates change nothing."
        yield remark_on("T04", zeros, text, "Look at what sets or computes it.")


def rates_to_watch(training: ExaminedTraining) -> list[Any]:
    """Return the learning rates that something other than a plan known to G23 changes."""
    planned = {id(getattr(p.setter.param, "var", None)) for p in known_plans(training, training.find(HyperParamSetter))}
    variables = [variable_behind(rate) for rate in find_rates(training)]
    return [variable for variable in variables if variable is not None and id(variable) not in planned]


def falling_rates(epoch: FirstEpoch) -> Iterator[Remark]:
    """
    T04: in the first epoch, a learning rate has fallen to less than a thousandth, and is not larger in the second one.

    Why: nothing is learnt from then on. A decay that was meant for each epoch happens in each step.

    Does not report training runs of one epoch, or plans that G23 judges.

    Args:
        epoch: the callback that knows the rates.

    Source: `lambda epoch, _: 0.1 * 0.9**epoch` with step_based=True.
    """
    for rate, first, last in epoch.fallen_rates():
        if abs(float(epoch.trainer.sess.run(rate))) < _FALLEN * abs(first):
            text = f"the learning rate has fallen from {first:.3g} to {last:.3g} in the first epoch."
            yield remark_on("T04", rate, text, "Does its decay count steps instead of epochs?")


def _is_of_variables(training: ExaminedTraining, rate: tf.Tensor) -> bool:
    """Return whether a rate is computed from variables alone, e.g. the step, so that its value takes no batch from the data."""
    before = training.graph.before([rate])
    is_condition = any("Switch" in training.graph.operations[name].type for name in before)
    is_of_data = any(map(training.graph.is_source, before))
    is_constant = constant_of(rate) is not None
    return not (is_constant or is_condition or is_of_data or _changes_anything([rate], ()))
