"""The extension that lets signals end a training: Ctrl-C always, SIGTERM and SIGUSR1 with exact resume."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Iterator

from ...loop.extension import ExtendedTrainer, Extension
from ...loop.signals.interrupt import Interruptible
from ...loop.signals.preemption import Preemption
from ...loop.trainer import find_step_ops
from ...utils.uncaught import EndsBriefly
from ..resume import find_savers
from .ranks import RankPreemption
from .saving import SaveAtSignal


class Signals(Extension):
    """
    Extension that handles signals. With `trainer.exact`, they end training after a checkpoint is saved.

    Args:
        end_within: the seconds for that; see `DEFAULT_EXTENSIONS`.

    Attributes:
        preemption: the signals that end training so; None without `exact`.
    """

    preemption: Preemption | None = None

    def __init__(self, end_within: float = 20.0) -> None:
        self._end_within = end_within

    @property
    def has_agreed(self) -> bool:
        """Whether a signal ends training, on all ranks after the same step."""
        return self.preemption is not None and self.preemption.number is not None

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Handle SIGTERM, SIGUSR1 and Ctrl-C, and print little when Ctrl-C or an error ends the script."""
        if trainer.exact:
            self.preemption = _make_preemption(trainer, self._end_within)
            trainer.callbacks.check = self.preemption.check
        with EndsBriefly(), self.preemption or nullcontext():
            yield

    @contextmanager
    def around_loop(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Save a training that a signal ends, and interrupt runs that wait for data."""
        callbacks = trainer.callbacks
        preempted = SaveAtSignal(
            self.preemption, trainer.loop, callbacks, find_step_ops(trainer), trainer.hooked_sess
        )
        with preempted, Interruptible(
            callbacks.interrupt, trainer.sess.close, self.preemption, preempted.wake
        ):
            yield


def _make_preemption(trainer: ExtendedTrainer, end_within: float) -> Preemption:
    loop, callbacks = trainer.loop, trainer.callbacks

    def saves() -> bool:
        return loop.outcome is None and bool(find_savers(callbacks))

    if trainer.size > 1:
        return RankPreemption(loop, end_within, trainer.ranks.channel, saves)
    return Preemption(lambda: loop.has_stepped, end_within, saves)
