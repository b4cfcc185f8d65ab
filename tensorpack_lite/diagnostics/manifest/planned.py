"""The values that schedules will set in a training, for the report."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ...callbacks.param.setter import HyperParamSetter, PlannedHyperParamSetter
from ...loop.callback import Callback
from ...loop.group import innermost
from ...loop.state import TrainLoop
from ...utils.utils import ENDLESS

_NUM_POINTS = 500


def planned_values(callbacks: Sequence[Callback], loop: TrainLoop) -> dict[str, Any] | None:
    """
    Return the values of hyper-parameters that are known before training, without a call of the script's functions.

    Args:
        callbacks: all callbacks.
        loop: the state at the beginning of the training.

    Returns:
        None for a training without a last epoch. Otherwise `end`, the last step; `known`, for each hyper-parameter the `steps` after
        which a value is set and the `values`, of up to 500 points; and `unknown`, the other ones with their callbacks.
    """
    if loop.max_epoch >= ENDLESS:
        return None
    known, unknown = {}, []
    for callback in callbacks:
        setter = innermost(callback)
        if not isinstance(setter, HyperParamSetter):
            continue
        name = setter.param.readable_name
        # a wrapper, such as PeriodicTrigger, decides when the value is set
        found = _preview(callback, loop) if isinstance(callback, PlannedHyperParamSetter) else None
        if found is None:
            unknown.append(f"{name} ({type(setter).__name__})")
        else:
            known[name] = found
    return {"end": _step_after(loop, loop.max_epoch), "known": known, "unknown": unknown}


def _preview(setter: PlannedHyperParamSetter, loop: TrainLoop) -> dict[str, Any] | None:
    """Return the steps and values at which the value changes; None if it is not known."""
    first, last = loop.starting_epoch - 1, loop.max_epoch - 1
    if setter.step_based:
        first, last = loop.global_step, _step_after(loop, loop.max_epoch) - 1
    initial = setter.get_current_value()
    steps: list[int] = []
    values: list[float] = []
    for point in np.unique(np.linspace(first, last, _NUM_POINTS).round().astype(np.int64)).tolist():
        value: Any = setter.preview(point, initial)
        if value is None:
            return None
        if not values or float(value) != values[-1]:
            steps.append(point if setter.step_based else _step_after(loop, point))
            values.append(float(value))
    return {"steps": steps, "values": values}


def _step_after(loop: TrainLoop, epoch: int) -> int:
    """Return the global step at the end of an epoch, at least the present one."""
    done = (loop.local_step + 1) % max(1, loop.steps_per_epoch)  # of the first epoch, at a resume inside it
    steps = (epoch - loop.starting_epoch + 1) * loop.steps_per_epoch
    return max(loop.global_step, loop.global_step - done + steps)
