"""The extension that lets signals end a training: Ctrl-C always, SIGTERM and SIGUSR1 with exact resume."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Callable, Iterator

from ...loop.extension import ExtendedTrainer, Extension
from ...loop.signals.end_signals import EndSignals
from ...loop.signals.interruptible import Interruptible
from ...loop.state import TrainLoop
from ...loop.trainer import find_step_ops
from ...ranks.channel import RankChannel
from ...utils.brief_traceback import EndsBriefly
from ..resume import find_savers
from .save_at_signal import SaveAtSignal


class RankEndSignals(EndSignals):
    """
    Context manager that handles SIGTERM, SIGUSR1 and Ctrl-C on one of several ranks, which all end after the same step.

    A signal on any rank is sent to the chief, which names the last step. Each rank raises Preempted in the
    first `check` after that step.

    Args:
        loop: the loop.
        within: seconds after which the process ends, wherever the main thread is.
        channel: the connection to the other ranks.
        saves: returns whether the training can save a checkpoint after Ctrl-C.
    """

    wakes = False  # the last step needs its data

    def __init__(self, loop: TrainLoop, within: float, channel: RankChannel, saves: Callable[[], bool]) -> None:
        super().__init__(lambda: loop.has_stepped, within, saves)
        self._loop, self._channel = loop, channel

    def request(self, number: int) -> None:
        """Ask the chief for the last step. Any thread may call it."""
        self._limit(number)
        if self.received is None:
            self.received = number
            self._channel.request_end(number)
            self._requested.set()

    def check(self) -> None:
        """Raise Preempted after the last step, or RankError if training cannot continue."""
        if self.number is None and self._channel.has_reached_end(self._loop.global_step):
            super().request(self._channel.signal or 0)
        super().check()


class Signals(Extension):
    """
    Extension that handles signals. With `trainer.exact`, they end training after a checkpoint is saved.

    Args:
        end_within: the seconds for that; see `DEFAULT_EXTENSIONS`.

    Attributes:
        end_signals: the signals that end training so; None without `exact`.
    """

    end_signals: EndSignals | None = None

    def __init__(self, end_within: float = 20.0) -> None:
        self._end_within = end_within

    @property
    def has_agreed(self) -> bool:
        """Whether a signal ends training, on all ranks after the same step."""
        return self.end_signals is not None and self.end_signals.number is not None

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Handle SIGTERM, SIGUSR1 and Ctrl-C, and print little when Ctrl-C or an error ends the script."""
        if trainer.exact:
            self.end_signals = _make_end_signals(trainer, self._end_within)
            trainer.callbacks.check = self.end_signals.check
        with EndsBriefly(), self.end_signals or nullcontext():
            yield

    @contextmanager
    def around_loop(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Save a training that a signal ends, and interrupt runs that wait for data."""
        callbacks = trainer.callbacks
        preempted = SaveAtSignal(self.end_signals, trainer.loop, callbacks, find_step_ops(trainer), trainer.hooked_sess)
        with preempted, Interruptible(callbacks.interrupt, trainer.sess.close, self.end_signals, preempted.wake):
            yield


def _make_end_signals(trainer: ExtendedTrainer, end_within: float) -> EndSignals:
    loop, callbacks = trainer.loop, trainer.callbacks

    def saves() -> bool:
        return loop.outcome is None and bool(find_savers(callbacks))

    channel = trainer.ranks.channel
    if isinstance(channel, RankChannel):
        return RankEndSignals(loop, end_within, channel, saves)
    return EndSignals(lambda: loop.has_stepped, end_within, saves)
