"""Trainings that a command has asked to end before their first step."""

from __future__ import annotations

from typing import Callable

from ...loop.trainer import LoopTrainer
from ...tfutils.sessinit import SessionInit
from ..lint.lint import lint_only
from ..nan.nan_replay import replay, variables_of
from .request import end_rehearsal, find_rehearsal

__all__ = ["rehearse"]


def rehearse(
    trainer: LoopTrainer,
    session_init: SessionInit,
    steps_per_epoch: int,
    initialize: Callable[[SessionInit], None],
) -> None:
    """
    Do what a command asks of this process, and end the process; nothing if no command has started it.

    Args:
        trainer: the trainer, whose callbacks are set up.
        session_init, steps_per_epoch: as in `Trainer.train`.
        initialize: creates the session with the given variables.

    Raises:
        SystemExit: a command has started this process; with the exit code for `run_rehearsal`.
    """
    request = find_rehearsal()
    if request is None:
        return
    if request.purpose == "lint":
        end_rehearsal(int(lint_only(trainer, session_init, steps_per_epoch)))
    initialize(variables_of(request.step_directory))
    try:
        result = replay(trainer.sess, request.step_directory)
    finally:
        trainer.hooked_sess.close()
    end_rehearsal(result)
