"""Rules about learning rates and schedules: their units, their lengths, and callbacks that set the same parameter."""

from __future__ import annotations

import dis
import itertools
from types import FunctionType
from typing import Any, Iterator

import numpy as np

from ...callbacks.param.hyperparam import GraphVarParam, ObjAttrParam
from ...callbacks.param.setter import HyperParamSetter, HyperParamSetterWithFunc, is_close
from ...callbacks.param.statistic import StatMonitorParamSetter
from ...callbacks.trigger import PeriodicTrigger
from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...utils.schedules import is_schedule
from ...utils.utils import ENDLESS
from ..data_check.remarks import Remark
from .graph_view import remark_on
from .plans import Plan, known_plans
from .rate_rules import find_rates, has_rate_name, variable_behind
from .training import ExaminedTraining

SHORTEST, SHORTEST_TO_END = 2, 5  # epochs of a training whose schedules are judged; a shorter one is a trial
NOTHING = 1e-5  # of the largest value: a rate that changes almost nothing
_LONG = 0.1  # of the training, without a rate
_SMOOTH = 8  # different values of a schedule that falls continuously
CONSTANT, _LITTLE, CHANGED = 0.02, 0.05, 0.5  # relative changes
_MUCH_LONGER = 20  # times training


def schedule_of_another_length(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G23: a schedule of the learning rate is always 0, or 0 for the last tenth of training or longer; or all its changes come after
    the end of training, or in the first epoch, because its points are steps and the callback counts epochs, or the reverse.

    Why: training has no learning rate, or the same one from beginning to end.

    Does not report trials, which are training runs of one epoch, or of fewer than 5 epochs if the schedule is longer; nor
    schedules of which a part lies in training, or functions of the script, which lint does not call.

    Source: schedules of other libraries, which count steps.
    """
    rates = {id(variable_behind(rate)) for rate in find_rates(training)}
    for plan in known_plans(training, training.find(HyperParamSetter)):
        param = plan.setter.param
        is_rate = has_rate_name(param.readable_name) or id(getattr(param, "var", plan)) in rates
        found = _judge(plan, is_rate)
        if found is not None:
            yield Remark("G23", param.readable_name, f"{plan.setter}: {found[0]}", found[1])


def _judge(plan: Plan, is_rate: bool) -> tuple[str, str] | None:
    """Return what is wrong with a plan, and the advice; None if nothing is."""
    num_epochs, end = plan.last - plan.first, plan.last * plan.scale
    is_endless = plan.last >= ENDLESS
    values = plan.values((plan.first + 1000) * plan.scale if is_endless else end)
    if is_rate and len(values) and not values.any():
        return "the value is always 0.", "Correct the values: with a rate of 0, nothing is learnt."
    if is_endless or num_epochs < SHORTEST:
        return None
    unit = "step" if plan.setter.step_based else "epoch"
    whole = f"training ends after {unit} {end}"
    if not plan.setter.step_based and _are_steps(plan, values):
        return (
            f"its points look like steps, but it counts epochs, and {whole}.",
            "Pass step_based=True, or give the points in epochs.",
        )
    if num_epochs >= SHORTEST_TO_END and _is_late(plan, values, end):
        return f"its changes come too late: {whole}.", "Shorten the schedule, or train longer."
    if is_rate and len(values) and plan.setter.step_based and _are_epochs(plan, values):
        return (
            f"its last change is in the first of {num_epochs} epochs, because it counts steps.",
            "Give the points in steps, or leave out step_based=True.",
        )
    return _judge_end(plan, values) if is_rate and len(values) else None


def _are_steps(plan: Plan, values: np.ndarray) -> bool:
    """Return whether a plan that counts epochs does almost nothing in training, and would do something if it counted steps."""
    total = plan.last * plan.steps
    least = max(4 * plan.last, total / 10, plan.steps)
    if plan.steps == 1 or (plan.points and not least < plan.points[-1] <= 2 * total):
        return False
    by_steps = plan.values(total)
    if not _change(by_steps) > CHANGED:
        return False
    if _change(values) < CONSTANT and (plan.points or _change(by_steps[len(by_steps) // 2 :]) > CONSTANT):
        return True
    if rises(values) and values[-1] < CHANGED * by_steps.max() and _ends_at(plan, total):
        return True
    longer = plan.values(4 * plan.last)  # still in its warm-up
    return bool(len(longer) and np.all(np.diff(longer) >= 0) and longer[-1] < CHANGED * by_steps.max())


def rises(values: np.ndarray) -> bool:
    """Return whether values rise, and never fall."""
    return bool(len(values) > 1 and np.all(np.diff(values) >= 0) and values[-1] > values[0])


def _ends_at(plan: Plan, point: int) -> bool:
    """Return whether the changes of a plan end at about a point."""
    before, after, much_later = (plan.value_at(factor * point) for factor in (0.85, 1.05, 1.5))
    return None not in (before, after) and is_close(after, much_later) and not is_close(before, after)


def _is_late(plan: Plan, values: np.ndarray, end: int) -> bool:
    """Return whether a plan has different values, of which training sees only one."""
    if not plan.points:
        later = plan.value_at(_MUCH_LONGER * end)
        if later is None or plan.first:
            return False
        is_flat = 0 < _change(values) < _LITTLE and abs(later - values[-1]) > CHANGED * values.max()
        return is_flat or (rises(values) and values[-1] < CHANGED * later)
    if plan.points[-1] < end or _change(values) > NOTHING:
        return False
    begin = plan.first * plan.scale
    if plan.initial is None and any(begin < point < end for point in plan.points):
        return False  # perhaps another value than before
    return not len(values) or not is_close(values[-1], _last_value(plan))


def _last_value(plan: Plan) -> float:
    value = plan.value_at(plan.points[-1])
    return 0.0 if value is None else value


def _are_epochs(plan: Plan, values: np.ndarray) -> bool:
    """Return whether a falling plan that counts steps has done everything in the first epoch, as if its points were epochs."""
    begin = plan.first * plan.scale
    early = plan.values(begin + plan.steps)
    is_over = is_close(early[-1], values[-1]) and _change(values) > CHANGED if len(early) else False
    return is_over and values[-1] < values[0] and _end_of_changes(plan) <= plan.last


def _end_of_changes(plan: Plan) -> int:
    """Return the first point from which on the value is that of the end of training."""
    low, high = plan.first * plan.scale, plan.last * plan.scale - 1
    final = plan.value_at(high)
    while low < high:
        middle = (low + high) // 2
        if is_close(plan.value_at(middle), final):
            high = middle
        else:
            low = middle + 1
    return low


def _judge_end(plan: Plan, values: np.ndarray) -> tuple[str, str] | None:
    """Return a remark if the rate falls to almost nothing long before the end of training."""
    largest, begin, end = values.max(), plan.first * plan.scale, plan.last * plan.scale
    over = _end_of_changes(plan)
    rest = (end - over) / (end - begin)
    is_nothing = values[-1] <= NOTHING * largest
    has_fallen = len(np.unique(values)) >= _SMOOTH and values[-1] <= CONSTANT * largest
    if not (is_nothing and rest > _LONG) and not (has_fallen and rest > CHANGED):
        return None
    unit = "step" if plan.setter.step_based else "epoch"
    text = f"from {unit} {over} on, the value is {values[-1]:.3g}, but training ends after {unit} {end}."
    return text, "Make the schedule as long as training."


def _change(values: np.ndarray) -> float:
    """Return the largest difference relative to the largest value; 0 if there are no values."""
    return float(np.ptp(values) / max(np.abs(values).max(), 1e-300)) if len(values) else 0.0


def two_schedules_of_one_parameter(training: ExaminedTraining) -> Iterator[Remark]:
    """
    G24: two callbacks set the same parameter to different values at the same time.

    Why: the later one wins at each trigger, so the schedule of the other one has no effect.

    Does not report a warm-up and the schedule after it, equal values, callbacks inside a trigger by epochs or a condition, or
    those that react to something: `HumanHyperParamSetter`, functions of the current value, and `StatMonitorParamSetter`, unless
    the other callback sets its own value after each epoch.

    Source: a base schedule that a warm-up without an end overwrites.
    """
    callbacks = training.trainer.find_callbacks(Callback)
    setters = [cb for cb in callbacks if isinstance(cb, HyperParamSetter)]
    plans = {id(plan.setter): plan for plan in known_plans(training, setters)}
    repeated = [_setter_in_steps(cb) for cb in callbacks]
    setters += [cb for cb in repeated if cb is not None and _is_absolute(cb)]
    for setter in setters:
        yield from _update_and_setter(training, setter, plans.get(id(setter)))
    for first, second in itertools.combinations(setters, 2):
        if _key(first) != _key(second) or first is second:
            continue
        pair = [plans.get(id(setter)) for setter in (first, second)]
        if _is_undone(first, second, pair):
            text = f"{first} and {second} set it: what the monitor sets is replaced after each epoch."
            yield Remark("G24", first.param.readable_name, text, "Keep one of them.")
        elif _differ(*pair) if None not in pair else _overwrites(first, second, pair):  # type: ignore[arg-type]
            text = f"{first} and {second} set it to different values at the same time, so the second one wins."
            yield Remark("G24", first.param.readable_name, text, "Keep one, or let one begin where the other ends.")


def _setter_in_steps(callback: Callback) -> Any:
    """Return the setter inside a PeriodicTrigger that counts steps."""
    if not isinstance(callback, PeriodicTrigger) or callback._every_k_steps is None:
        return None
    return callback.cb if isinstance(callback.cb, HyperParamSetter) else None


def _update_and_setter(training: ExaminedTraining, setter: HyperParamSetter, plan: Plan | None) -> Iterator[Remark]:
    """Report a variable that a schedule sets, although each step also changes it."""
    param = setter.param
    if not isinstance(param, GraphVarParam) or not (plan is not None or _is_absolute(setter)):
        return
    run_each_step = training.step | training.graph.before(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    if any(op.name in run_each_step for op in training.updates(param.var)):
        text = f"{setter} sets it, and each step changes it, too."
        yield remark_on("G24", param.var, text, "Keep the schedule or the update.")


def _is_undone(first: HyperParamSetter, second: HyperParamSetter, plans: list[Any]) -> bool:
    """Return whether a StatMonitorParamSetter meets a callback that sets its own values throughout training."""
    for monitor, setter, plan in ((first, second, plans[1]), (second, first, plans[0])):
        if isinstance(monitor, StatMonitorParamSetter):
            return not plan.points if plan is not None else _is_absolute(setter)
    return False


def _key(setter: HyperParamSetter) -> tuple[int, str]:
    """Return what a callback sets."""
    param = setter.param
    if isinstance(param, GraphVarParam):
        return id(param.var), ""
    return (id(param.obj), param.attrname) if isinstance(param, ObjAttrParam) else (id(param), "")


def _differ(first: Plan, second: Plan) -> bool:
    """Return whether two plans set different values at the same time, after the beginning of training."""
    for plan, other in ((first, second), (second, first)):
        begin, end = other.interval
        times = plan.times
        if plan.interval[0] < plan.interval[1]:
            low, high = max(begin, plan.interval[0]), min(end, plan.interval[1])
            times = np.linspace(low, high, 21)[1:-1].tolist() if low < high else []
        for time in times:
            is_inside = begin < time < end or (begin == end and time in other.times)
            if first.first < time < first.last and is_inside and not _agree(plan, other, time):
                return True
    return False


def _agree(first: Plan, second: Plan, time: float) -> bool:
    values = [plan.value_at(time * plan.scale) for plan in (first, second)]
    return None in values or bool(np.isclose(values[0], values[1], rtol=1e-2, atol=0))  # type: ignore[arg-type]


def _overwrites(first: HyperParamSetter, second: HyperParamSetter, plans: list[Any]) -> bool:
    """Return whether a function of the script that sets a value at each point meets another such function, or a plan."""
    unknown = [setter for setter, plan in zip((first, second), plans) if plan is None]
    if not all(map(_is_absolute, unknown)):
        return False
    return all(
        plan is None or plan.interval[0] < plan.interval[1] or any(plan.first < t < plan.last for t in plan.times)
        for plan in plans
    )


def _is_absolute(setter: HyperParamSetter) -> bool:
    """Return whether a callback calls a function of the script that neither uses the current value nor returns None."""
    function: Any = setter._func if isinstance(setter, HyperParamSetterWithFunc) else None
    if type(function) is not FunctionType or is_schedule(function) or function.__code__.co_argcount != 2:
        return False
    current = function.__code__.co_varnames[1]
    for instruction in dis.get_instructions(function):
        used = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        is_none = instruction.opname in ("LOAD_CONST", "RETURN_CONST") and instruction.argval is None
        if is_none or current in used:
            return False
    return True
