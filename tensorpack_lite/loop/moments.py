"""
The moments of a training at which callbacks are called, in order.

A new moment is a row of `MOMENTS`, two methods of `Callback`, and its call in `Trainer.main_loop`. What groups, proxies and conditions
forward, where a training can resume, which calls it then owes, and where a signal may end it follow from the row. A moment of a step
costs one call in each step for each proxy, because a proxy forwards all of them.
"""

from __future__ import annotations

from typing import NamedTuple

REPEATED, OWED = "repeated", "owed"


class Moment(NamedTuple):
    """
    A moment of the training.

    Attributes:
        name: the method of `Callback` that the loop calls. Users override the one with an underscore.
        period: "epoch", "step" or "run", if the moment recurs in each of them; otherwise "".
        at_resume: what happens to the calls of this moment if one of them saves a checkpoint and a training resumes from it. "owed":
            it makes the calls that were left. "repeated": it makes all of them. "": the checkpoint counts as saved in the latest
            moment before that is not "", so all are made. Choose "repeated" if a call only prepares something in the process, and
            "owed" if a second call would change the result. Moments of a step are "owed".
        is_checked: whether `Callbacks.check`, which may end the training, is called before each call. Choose it where a training can
            resume, because one that ends there resumes there.
    """

    name: str
    period: str = ""
    at_resume: str = ""
    is_checked: bool = False


_ROWS = (
    Moment("setup_graph"),
    Moment("before_train", "", REPEATED),
    Moment("before_epoch", "epoch", REPEATED, is_checked=True),
    Moment("before_run", "run"),
    Moment("after_run", "run"),
    Moment("trigger_step", "step", OWED, is_checked=True),
    Moment("after_epoch", "epoch"),
    Moment("trigger_epoch", "epoch", OWED, is_checked=True),
    Moment("trigger"),  # called by `trigger_epoch`, or by a wrapper
    Moment("after_train"),
)
MOMENTS = {row.name: row for row in _ROWS}


def of_step() -> list[str]:
    """Return the moments before and after each step, in order."""
    return [name for name, row in MOMENTS.items() if row.period == "step"]


def before_step() -> list[str]:
    """Return the moments that precede each step, in order."""
    return [name for name in of_step() if name not in after_step()]


def after_step() -> list[str]:
    """Return the moments that follow each step, in order."""
    later = list(MOMENTS)[list(MOMENTS).index("after_run") :]
    return [name for name in of_step() if name in later]


def at_epoch_end() -> list[str]:
    """Return the moments that follow the last step of an epoch, in order."""
    later = list(MOMENTS)[list(MOMENTS).index("after_epoch") :]
    return [name for name in later if MOMENTS[name].period == "epoch"]


def after_steps() -> list[str]:
    """Return those of `at_epoch_end` at which a training can resume."""
    return [name for name in at_epoch_end() if MOMENTS[name].at_resume]
