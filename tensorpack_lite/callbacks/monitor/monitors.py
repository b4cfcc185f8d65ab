"""`trainer.monitors`: the group of all monitors, which also keeps the history of scalars."""

from __future__ import annotations

import math
import os
import re
import time
from difflib import get_close_matches
from typing import Any, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...loop.trainer import LoopMonitors
from ...tfutils.summary import create_image_summary, create_scalar_summary, create_text_summary
from ...utils import logger
from ...utils.checks import check_type
from ...utils.naming import TOWER_PREFIX
from ...utils.stats import as_python_number
from ..expected import advice_on_order, find_late_reporter
from .base import MonitorBase
from .epoch_line import EpochLine
from .json_file import JSONWriter
from .rows import counter_in

_SUMMARY_SUFFIX = re.compile("-summary$")


class Monitors(Callback, LoopMonitors):
    """
    Group of all monitors: it passes scalars, images and events to each of them, and keeps the history of scalars.

    A trainer creates it as `trainer.monitors` and registers it as the last callback. The history is kept in
    memory and holds only scalars. A training that resumes from a checkpoint reads the history from
    `stats.json`, which has the last value of each name in each row. Without a JSONWriter, the history starts
    with the last value of each name.

    If a name is reported twice at the same step, with different values, a warning is logged, once per name.
    For scalars that are NaN or infinite, a warning is logged at the end of the epoch, once per name. To end
    training at the first such loss instead, add `TerminateOnNaN`.

    If the log is quiet (`logger.set_quiet`), the chief logs one line for each epoch.

    Runs at: before_epoch, trigger_epoch, after_train.

    Args:
        monitors: the monitors, in the order in which they are called.

    Raises:
        TypeError: an element is not a monitor.

    Example:
        >>> self.trainer.monitors.put_scalar("distance", 0.5)      # inside a callback
        >>> self.trainer.monitors.get_latest("distance")
        0.5
    """

    _chief_only = False

    def __init__(self, monitors: Sequence[MonitorBase]) -> None:
        for monitor in monitors:
            check_type("Monitors: monitors", monitor, MonitorBase, "a list of MonitorBase")
        self._monitors = list(monitors)
        self._history: dict[str, list[tuple[int, float]]] = {}
        self._not_finite: dict[str, str] = {}  # name -> its first such value and step
        self._num_warned = 0
        self._line = EpochLine(self)
        self._expected: dict[str, Callback] = {}
        self._reported_at: dict[str, tuple[int, ...]] = {}  # name -> epoch and steps of its last value
        self._reported_twice: set[str] = set()

    def put_scalar(self, name: str, val: float | np.generic | np.ndarray) -> None:
        """
        Report a scalar.

        Args:
            name: its name.
            val: a Python or NumPy number, or an array of shape ().

        Raises:
            TypeError: `val` is something else.
        """
        number = check_type(f"Monitors.put_scalar '{name}'", as_python_number(val), (int, float), "a number")
        self._tell_scalar(name, number)
        self._tell_summary(create_scalar_summary(name, number))

    def put_image(self, name: str, val: np.ndarray) -> None:
        """
        Report one image or several.

        Args:
            name: their name.
            val: an ndarray with values in [0, 255]: [H, W], [H, W, C] with C in {1, 3, 4}, [N, H, W], or [N, H, W, C]. Three
                channels are RGB.

        Raises:
            TypeError: `val` is not an ndarray.
            ValueError: `val` has another number of dimensions.
        """
        images = _as_image_batch(name, val)
        for monitor in self._monitors:
            monitor.process_image(name, images)
        self._tell_summary(create_image_summary(name, images))

    def put_text(self, name: str, val: str | Sequence[str]) -> None:
        """
        Report one text or several, such as samples of a text model.

        Args:
            name: their name.
            val: a string, or a list of strings.

        Raises:
            TypeError: `val` is something else.
        """
        texts = [val] if isinstance(val, str) else list(check_type(f"Monitors.put_text '{name}'", val, (list, tuple)))
        for text in texts:
            check_type(f"Monitors.put_text '{name}': an element", text, str)
        for monitor in self._monitors:
            monitor.process_text(name, texts)
        self._tell_summary(create_text_summary(name, texts))

    def put_summary(self, summary: tf.Summary | bytes) -> None:
        """
        Report a summary as TensorFlow evaluates it.

        `tower<k>/` is removed from all names, so that they are the same with each trainer, and a trailing `-summary` from
        those of scalars.

        Args:
            summary: a `tf.Summary`, or its bytes.

        Raises:
            TypeError: `summary` is something else.
        """
        if isinstance(summary, bytes):
            summary = tf.Summary.FromString(summary)
        check_type("Monitors.put_summary: summary", summary, tf.Summary, "a tf.Summary or its bytes")
        for value in summary.value:
            value.tag = TOWER_PREFIX.sub("", value.tag)
            if value.WhichOneof("value") == "simple_value":
                value.tag = _SUMMARY_SUFFIX.sub("", value.tag)
                self._tell_scalar(value.tag, value.simple_value)
        self._tell_summary(summary)

    def put_event(self, evt: tf.Event) -> None:
        """
        Report an event; its step and time are set here.

        Args:
            evt: a `tf.Event`.

        Raises:
            TypeError: `evt` is something else.
        """
        check_type("Monitors.put_event: evt", evt, tf.Event)
        evt.step = self.global_step
        evt.wall_time = time.time()
        for monitor in self._monitors:
            monitor.process_event(evt)

    def get_latest(self, name: str) -> float:
        """
        Return the last value of a scalar.

        Raises:
            KeyError: no scalar of that name has been reported; the message names the nearest ones.
        """
        history = self._history.get(name)
        if not history:
            raise KeyError(self.describe_missing(name))
        return history[-1][1]

    @property
    def scalar_names(self) -> list[str]:
        """The names of all scalars that have been reported, in the order of their first report."""
        return list(self._history)

    def describe_missing(self, name: str, reader: Callback | None = None) -> str:
        """
        Return a text that says that a scalar has not been reported, and names the nearest ones.

        Args:
            name: the name of the scalar.
            reader: the callback that reads it. If it is called too early, the text shows where to put it instead.
        """
        order = "" if reader is None else self.advice_on_order(name, reader)
        if order:
            return f"'{name}' has not been reported. {order}"
        nearest = get_close_matches(name, sorted(self._history), n=3, cutoff=0.0)
        names = " or ".join(f"'{one}'" for one in nearest)
        hint = f"Did you mean {names}?" if names else "Nothing has been reported yet."
        return f"'{name}' has not been reported. {hint}"

    def advice_on_order(self, name: str, reader: Callback) -> str:
        """Return where to put a callback that reads a scalar before another one reports it; "" if none is known to do so."""
        return advice_on_order(self.trainer.find_callbacks(Callback), reader, name)

    def expect(self, name: str, reader: Callback) -> None:
        """
        Note that a callback reads a scalar that has never been reported.

        At the end of the epoch, when all callbacks have been called, that is a KeyError if the scalar is still missing. It is
        a warning if a callback may report it later: a wrapper such as PeriodicTrigger was not due yet; or the training has
        callbacks of the user, and no reported name is nearly the same.

        Args:
            name: the name of the scalar.
            reader: the callback, for the message.
        """
        self._expected[name] = reader

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """
        Return all values of a scalar.

        Returns:
            A list of `(global_step, value)` in the order of the reports; empty if there are none.
        """
        return list(self._history.get(name, ()))

    def state_dict(self) -> dict[str, Any] | None:
        """Return the last value of each name."""
        return {"last": {name: list(history[-1]) for name, history in self._history.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Read the histories from `stats.json`, and add the values that are not in a row yet."""
        self._history = {}
        for row in self._saved_rows():
            for name, value in row.items():
                if name in state["last"] and isinstance(value, (int, float)):
                    self._history.setdefault(name, []).append((row["global_step"], float(value)))
        for name, (step, value) in state["last"].items():
            history = self._history.setdefault(name, [])
            if not history or history[-1][0] != step:
                history.append((step, value))

    def _saved_rows(self) -> list[dict[str, Any]]:
        """Return the rows of `stats.json` up to the checkpoint; the JSONWriter has removed the others."""
        paths = [one.path for one in self._monitors if isinstance(one, JSONWriter) and one.path is not None]
        rows = JSONWriter.load_existing_json(os.path.dirname(paths[0])) if paths else None
        return [row for row in rows or [] if counter_in(row, "global_step") is not None]

    def _before_epoch(self) -> None:
        self._line.begin(self.trainer)

    def _after_train(self) -> None:
        self._warn_of_not_finite()

    def _trigger_epoch(self) -> None:
        self._line.log(self.trainer)
        self._warn_of_not_finite()
        expected, self._expected = self._expected, {}
        for name, reader in expected.items():
            if not self._history.get(name):
                self._complain_of_missing(name, reader)

    def _complain_of_missing(self, name: str, reader: Callback) -> None:
        message = f"{reader}: statistic {self.describe_missing(name, reader)}"
        late = find_late_reporter(self.trainer.find_callbacks(Callback), name, self._history)
        if late is None:
            raise KeyError(f"{message} Correct the name, or pass strict=False to wait for it.")
        logger.warning(f"{message} {late} may report it later.")

    def _warn_of_not_finite(self) -> None:
        """Log the scalars that were not finite for the first time since the last warning."""
        new = list(self._not_finite.items())[self._num_warned :]
        self._num_warned += len(new)
        if new:
            found = ", ".join(f"'{name}' {what}" for name, what in new)
            logger.warning(
                f"Monitors: not finite: {found}. To end training at the first such loss and find the tensor where it began, add "
                "TerminateOnNaN() to the callbacks."
            )

    def _tell_scalar(self, name: str, number: float) -> None:
        for monitor in self._monitors:
            monitor.process_scalar(name, number)
        step = self.global_step
        history = self._history.setdefault(name, [])
        # `step` stays the same if `run_step` does not run the hooked session
        place = (self.epoch_num, self.local_step, step)
        if history and self._reported_at.get(name) == place:
            self._warn_of_second_value(name, step, history[-1][1], number)
        self._reported_at[name] = place
        history.append((step, float(number)))
        if not math.isfinite(number) and name not in self._not_finite:
            self._not_finite[name] = f"({number}, first reported at global_step={step})"

    def _warn_of_second_value(self, name: str, step: int, first: float, second: float) -> None:
        is_same = first == second or (math.isnan(first) and math.isnan(second))
        if not is_same and name not in self._reported_twice:
            self._reported_twice.add(name)
            logger.warning(
                f"Monitors: '{name}' was reported twice at step {step}, as {first:.5g} and then as {second:.5g}. stats.json and "
                "callbacks that read it have only the last value. Give one of them another name. Inferencers have an argument for "
                "it: ScalarStats(..., prefix='test'), ClassificationError(..., summary_name='test_error')."
            )

    def _tell_summary(self, summary: tf.Summary) -> None:
        for monitor in self._monitors:
            monitor.process_summary(summary)


def _as_image_batch(name: str, val: np.ndarray) -> np.ndarray:
    """Convert any shape that `put_image` accepts to [N, H, W, C]."""
    check_type(f"Monitors.put_image '{name}'", val, np.ndarray)
    if val.ndim == 2:
        return val[np.newaxis, :, :, np.newaxis]
    if val.ndim == 3:
        return val[np.newaxis] if val.shape[-1] in (1, 3, 4) else val[..., np.newaxis]
    if val.ndim == 4:
        return val
    raise ValueError(
        f"Monitors.put_image '{name}': wrong shape (expected [H, W], [H, W, C], [N, H, W] or [N, H, W, C], got {val.shape})."
    )
