"""
The answer to `tensorpack-lite schedule`: the values that hyper-parameters will have.

**In:** a training whose callbacks are set up.
**Out:** a table and a curve on stdout, and a picture.
"""

from __future__ import annotations

import sys
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np
from tabulate import tabulate

from ...callbacks.param.setter import HyperParamSetter, PlannedHyperParamSetter
from ...loop.callback import Callback
from ...loop.extension import ExtendedTrainer
from ...loop.group import innermost
from ...utils.optional import load_optional
from ...utils.utils import ENDLESS
from .request import arguments_of

_MAX_POINTS = 2_000_000
_NUM_ROWS, _WIDTH = 12, 60
_BLOCKS = "▁▂▃▄▅▆▇█"


class Plan(NamedTuple):
    """
    The values of a hyper-parameter.

    Attributes:
        name: its name.
        epochs: when each value is set, in epochs since the beginning, float64 [N].
        values: float64 [N].
        end: the end of the training, in epochs.
    """

    name: str
    epochs: np.ndarray
    values: np.ndarray
    end: float

    def at(self, epoch: float) -> float:
        """Return the value in use at a time, in epochs that are done."""
        index = int(np.searchsorted(self.epochs, epoch + 1e-9, side="right")) - 1
        return float(self.values[max(0, index)])


def show_schedules(trainer: ExtendedTrainer, options: Mapping[str, Any]) -> int:
    """
    Show the planned values of all hyper-parameters.

    Args:
        trainer: the trainer, whose callbacks are set up.
        options: `epochs`, the number of epochs, or None for that of the training; `output`, the picture, or None.

    Returns:
        0; 1 if no value is known before training; 2 if the training has no last epoch.
    """
    creator, init, steps, first, last = arguments_of(trainer)
    epochs = options["epochs"] or last - first + 1
    if epochs >= ENDLESS:
        sys.stdout.write("The training has no last epoch. Pass the number to show: --epochs 100.\n")
        return 2
    trainer.initialize(creator, init)
    with trainer.sess.graph.as_default(), trainer.sess.as_default():
        callbacks = trainer.find_callbacks(Callback)
        known = [callback for callback in callbacks if isinstance(callback, PlannedHyperParamSetter)]
        plans = [plan(setter, steps, first - 1, epochs) for setter in known]
    trainer.hooked_sess.close()
    setters = [setter for setter in map(innermost, callbacks) if isinstance(setter, HyperParamSetter)]
    unknown = [f"{setter.param.readable_name} ({type(setter).__name__})" for setter in setters if setter not in known]
    sys.stdout.write(f"{show_plans(plans, unknown, steps)}\n")
    if options["output"] is not None and plans:
        draw_plans(plans, options["output"])
        sys.stdout.write(f"Drawn in {options['output']}.\n")
    return 0 if plans else 1


def plan(setter: PlannedHyperParamSetter, steps_per_epoch: int, start: int, num_epochs: int) -> Plan:
    """
    Compute the values that a callback will set, by calling its `value_at` for all epochs or steps.

    Args:
        setter: the callback.
        steps_per_epoch: the number of steps in an epoch.
        start: the number of epochs before the first one.
        num_epochs: the number of epochs.

    Raises:
        ValueError: there are more than 2,000,000 values.
    """
    scale = steps_per_epoch if setter.step_based else 1
    first = 0 if setter.step_based else start
    num = num_epochs * scale
    if num > _MAX_POINTS:
        raise ValueError(
            f"schedule: too many steps to show (expected at most {_MAX_POINTS:,}, got {num:,}). Pass --epochs with a smaller number."
        )
    value = setter.get_current_value()
    values = []
    for point in range(first, first + num):
        new = setter.value_at(point, value)
        value = value if new is None else new
        values.append(float(value))
    return Plan(
        setter.param.readable_name,
        start + np.arange(num) / scale,
        np.array(values),
        float(start + num_epochs),
    )


def show_plans(plans: list[Plan], unknown: list[str], steps_per_epoch: int) -> str:
    """Return a curve for each plan, and a table of their values at up to 12 epochs."""
    parts = []
    for schedule in plans:
        times = np.linspace(schedule.epochs[0], schedule.end, _WIDTH, endpoint=False)
        curve = sparkline([schedule.at(time) for time in times])
        parts.append(
            f"{schedule.name}, between {schedule.values.min():.4g} and {schedule.values.max():.4g}, {schedule.end - schedule.epochs[0]:g} epochs of "
            f"{steps_per_epoch} steps:\n{curve}"
        )
    if plans:
        rows = [[f"{epoch + 1:g}", *(f"{schedule.at(epoch):.4g}" for schedule in plans)] for epoch in _shown(plans[0])]
        headers = ["in epoch, at its beginning", *(schedule.name for schedule in plans)]
        parts.append(tabulate(rows, headers=headers, disable_numparse=True))
    if unknown:
        parts.append(f"Not known before training: {', '.join(unknown)}.")
    elif not plans:
        parts.append("No callback sets a hyper-parameter.")
    return "\n\n".join(parts)


def _shown(schedule: Plan) -> Iterator[int]:
    """Yield about 12 epochs, the first and the last one among them."""
    first, last = int(schedule.epochs[0]), int(schedule.end) - 1
    step = max(1, -(-(last - first + 1) // _NUM_ROWS))
    yield from range(first, last, step)
    yield last


def sparkline(values: list[float]) -> str:
    """Return a curve of block characters, from the lowest to the highest value."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[round((value - low) / span * (len(_BLOCKS) - 1))] for value in values)


def draw_plans(plans: list[Plan], path: str) -> None:
    """
    Draw the values over the epochs, one plot for each hyper-parameter.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    matplotlib = load_optional("matplotlib.figure", "schedule")
    figure = matplotlib.Figure(figsize=(7, 3 * len(plans)))
    axes = figure.subplots(len(plans), squeeze=False)
    for axis, schedule in zip(axes.flat, plans):
        axis.step([*schedule.epochs, schedule.end], [*schedule.values, schedule.values[-1]], where="post")
        axis.set(title=schedule.name, xlabel="epochs", xlim=(schedule.epochs[0], schedule.end))
        axis.set_ylim(bottom=min(0.0, float(schedule.values.min())))
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
