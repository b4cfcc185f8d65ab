"""Callbacks of tensorpack from 2016 and 2017."""

from __future__ import annotations

from ..loop.callback import Callback
from ..utils import logger


class PeriodicCallback(Callback):
    """
    Base class of callbacks that act only in some epochs. A subclass defines `_trigger_periodic`.

    Args:
        period: the callback acts when `epoch_num` is a multiple of `period`.
    """

    def __init__(self, period: int = 1) -> None:
        self.period = int(period)

    def _trigger_epoch(self) -> None:
        if self.epoch_num % self.period == 0:
            self._trigger_periodic()

    def _trigger_periodic(self) -> None:
        """Act in this epoch. Subclasses override this method."""


class _DoneByDefault(Callback):
    """
    A callback that does nothing.

    Args:
        args, kwargs: ignored.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        logger.info(f"{type(self).__name__} does nothing: the default callbacks and monitors do its work.")


class StatPrinter(_DoneByDefault):
    """Callback that printed the scalars of each epoch, as ScalarPrinter does."""


class StatHolder(_DoneByDefault):
    """Callback that wrote the scalars of each epoch to a file, as JSONWriter does."""


class SummaryWriter(_DoneByDefault):
    """Callback that wrote summaries to an event file, as TFEventWriter does."""


class MaintainStepCounter(_DoneByDefault):
    """Callback that increased the global step, as the train_op does."""
