"""What a monitor is: a callback that also receives the numbers, images and events that a training produces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...compat import tfv1 as tf
from ...loop.callback import Callback

if TYPE_CHECKING:
    from ...train.base import Trainer

__all__ = ["MonitorBase", "NoOpMonitor"]


class MonitorBase(Callback):
    """
    Base class of monitors: override the `process_*` methods you care about, and the moments of a callback.

    What anybody hands to `trainer.monitors` arrives here, at once and in the thread that handed it over:
    `put_scalar` as `process_scalar` and `process_summary`, `put_image` as `process_image` and `process_summary`,
    `put_summary` as one `process_scalar` for each scalar in it and one `process_summary`.

    Runs at: whatever a subclass overrides. Every process of a distributed training has its monitors.

    Example:
        >>> class Loudspeaker(MonitorBase):
        ...     def process_scalar(self, name, val):
        ...         logger.info("%s is %s", name, val)

    tensorpack: same.
    """

    _chief_only = False

    def setup_graph(self, trainer: Trainer) -> None:
        """Receive the trainer; monitors create no graph, so no name scope is opened."""
        self.trainer = trainer
        self.graph = tf.get_default_graph()
        self._setup_graph()

    def process(self, name: str, val: Any) -> None:
        """Receive a value of any kind; for users' own monitors, the library does not call it."""

    def process_scalar(self, name: str, val: float) -> None:
        """
        Receive a number.

        Args:
            name: its name, without `tower<k>/` and without a trailing `-summary`.
            val: a Python int or float.
        """

    def process_image(self, name: str, val: Any) -> None:
        """
        Receive images.

        Args:
            name: their name.
            val: an ndarray [N, H, W, C].
        """

    def process_summary(self, summary: Any) -> None:
        """
        Receive a `tf.Summary`.

        Args:
            summary: the protocol buffer; the names of its scalars are shortened as in `process_scalar`.
        """

    def process_event(self, evt: Any) -> None:
        """
        Receive a `tf.Event` that is no summary, such as the trace of a run.

        Args:
            evt: the protocol buffer; `step` and `wall_time` are filled in.
        """


class NoOpMonitor(MonitorBase):
    """
    A monitor that does nothing; a placeholder in a list.

    Args:
        name: what `str()` shows, or None for the class name.

    tensorpack: same.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name or "NoOpMonitor"
