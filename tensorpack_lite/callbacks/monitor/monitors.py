"""`trainer.monitors`, which hands scalars, images and events to every monitor and keeps the history of scalars."""

from __future__ import annotations

import math
import re
import time
from typing import Any, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...loop.callback import Callback
from ...tfutils.summary import create_image_summary, create_scalar_summary
from ...utils import logger
from ...utils.errors import type_error
from .base import MonitorBase

__all__ = ["Monitors"]

_TOWER_PREFIX = re.compile("tower[0-9]+/")
_SUMMARY_SUFFIX = re.compile("-summary$")


class Monitors(Callback):
    """
    Hand what callbacks produce to every monitor, and keep the history of scalars.

    A trainer makes it, as `trainer.monitors`, and registers it as its last callback. The history is in memory and holds
    scalars only. In a training that resumes from a checkpoint, it begins with the last value of each name.

    Scalars that are NaN or infinite are logged as a warning at the end of the epoch, once per name. To end training at
    the first such loss instead, add `TerminateOnNaN`.

    Runs at: trigger_epoch, after_train.

    Args:
        monitors: the monitors, in the order in which they are told.

    Raises:
        TypeError: one of them is no monitor.

    Example:
        >>> self.trainer.monitors.put_scalar("distance", 0.5)      # inside a callback
        >>> self.trainer.monitors.get_latest("distance")
        0.5

    tensorpack: same; there the wrong kind of argument is an AssertionError.
    """

    _chief_only = False

    def __init__(self, monitors: Sequence[MonitorBase]) -> None:
        for monitor in monitors:
            if not isinstance(monitor, MonitorBase):
                raise type_error("Monitors", "a list of MonitorBase", monitor)
        self._monitors = list(monitors)
        self._history: dict[str, list[tuple[int, float]]] = {}
        self._not_finite: dict[str, str] = {}  # name -> its first such value and step
        self._num_warned = 0

    def put_scalar(self, name: str, val: Any) -> None:
        """
        Hand in one number.

        Args:
            name: its name.
            val: a Python or NumPy number, or an array of one element without dimensions.

        Raises:
            TypeError: `val` is something else.
        """
        number = _as_python_number(name, val)
        self._tell_scalar(name, number)
        self._tell_summary(create_scalar_summary(name, number))

    def put_image(self, name: str, val: Any) -> None:
        """
        Hand in one image or several.

        Args:
            name: their name.
            val: an ndarray with values in [0, 255]: [H, W], [H, W, C] with C in {1, 3, 4}, [N, H, W], or [N, H, W, C].

        Raises:
            TypeError: `val` is no ndarray.
            ValueError: it has another number of dimensions.
        """
        images = _as_image_batch(name, val)
        for monitor in self._monitors:
            monitor.process_image(name, images)
        self._tell_summary(create_image_summary(name, images))

    def put_summary(self, summary: Any) -> None:
        """
        Hand in a summary as TensorFlow evaluates it.

        Names of scalars lose every `tower<k>/` and a trailing `-summary`, for all monitors; names of histograms and
        images stay as they are.

        Args:
            summary: a `tf.Summary`, or its bytes.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(summary, bytes):
            summary = tf.Summary.FromString(summary)
        if not isinstance(summary, tf.Summary):
            raise type_error("Monitors.put_summary", "a tf.Summary or its bytes", summary)
        for value in summary.value:
            if value.WhichOneof("value") == "simple_value":
                value.tag = _SUMMARY_SUFFIX.sub("", _TOWER_PREFIX.sub("", value.tag))
                self._tell_scalar(value.tag, value.simple_value)
        self._tell_summary(summary)

    def put_event(self, evt: Any) -> None:
        """
        Hand in an event; its step and its time are set here.

        Args:
            evt: a `tf.Event`.

        Raises:
            TypeError: it is something else.
        """
        if not isinstance(evt, tf.Event):
            raise type_error("Monitors.put_event", "a tf.Event", evt)
        evt.step = self.global_step
        evt.wall_time = time.time()
        for monitor in self._monitors:
            monitor.process_event(evt)

    def get_latest(self, name: str) -> float:
        """
        Give the last value of a scalar.

        Raises:
            KeyError: nobody handed in a scalar of that name.
        """
        history = self._history.get(name)
        if not history:
            known = ", ".join(sorted(self._history)) or "none"
            raise KeyError(f"No scalar '{name}' has been put into the monitors. So far there are: {known}.")
        return history[-1][1]

    def get_history(self, name: str) -> list[tuple[int, float]]:
        """
        Give all values of a scalar.

        Returns:
            A list of `(global_step, value)` in the order of arrival; empty if nobody handed in that name.
        """
        return list(self._history.get(name, ()))

    def state_dict(self) -> dict[str, Any] | None:
        """Return the last value of each name."""
        return {"last": {name: list(history[-1]) for name, history in self._history.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the histories with the values that were the last."""
        self._history = {name: [(step, value)] for name, (step, value) in state["last"].items()}

    def _trigger_epoch(self) -> None:
        self._warn_of_not_finite()

    def _after_train(self) -> None:
        self._warn_of_not_finite()

    def _warn_of_not_finite(self) -> None:
        """Log the scalars that were not finite for the first time since the last warning."""
        new = list(self._not_finite.items())[self._num_warned :]
        self._num_warned += len(new)
        if new:
            found = ", ".join(f"'{name}' {what}" for name, what in new)
            logger.warning(
                f"Scalars that are not finite: {found}. Training goes on; to end it at the first such loss and to find the "
                "tensor where it began, add TerminateOnNaN() to the callbacks."
            )

    def _tell_scalar(self, name: str, number: float) -> None:
        for monitor in self._monitors:
            monitor.process_scalar(name, number)
        step = self.global_step
        self._history.setdefault(name, []).append((step, float(number)))
        if not math.isfinite(number) and name not in self._not_finite:
            self._not_finite[name] = f"({number}, first reported at global_step={step})"

    def _tell_summary(self, summary: Any) -> None:
        for monitor in self._monitors:
            monitor.process_summary(summary)


def _as_python_number(name: str, val: Any) -> Any:
    """Give a Python int or float for every kind of number."""
    if isinstance(val, (np.generic, np.ndarray)) and np.ndim(val) == 0:
        val = val.item()
    if not isinstance(val, (int, float)):
        raise type_error(f"Monitors.put_scalar '{name}'", "a number", val)
    return val


def _as_image_batch(name: str, val: Any) -> Any:
    """Give [N, H, W, C] for every form of an image that `put_image` takes."""
    if not isinstance(val, np.ndarray):
        raise type_error(f"Monitors.put_image '{name}'", "an ndarray", val)
    if val.ndim == 2:
        return val[np.newaxis, :, :, np.newaxis]
    if val.ndim == 3:
        return val[np.newaxis] if val.shape[-1] in (1, 3, 4) else val[..., np.newaxis]
    if val.ndim == 4:
        return val
    raise ValueError(
        f"Monitors.put_image '{name}': array of shape {val.shape} has {val.ndim} dimensions, wanted 2, 3 or 4 "
        "([H, W], [H, W, C], [N, H, W] or [N, H, W, C])."
    )
