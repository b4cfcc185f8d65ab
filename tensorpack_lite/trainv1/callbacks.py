"""Callbacks of 2016 whose work the default callbacks and monitors do today."""

from __future__ import annotations

from ..loop.callback import Callback
from ..utils import logger


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
