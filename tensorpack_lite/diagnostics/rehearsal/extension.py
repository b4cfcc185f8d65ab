"""Trainings that a command has asked to end before their first step."""

from __future__ import annotations

from typing import Any

from ...loop.extension import Extension
from ..lint.lint import lint_only
from ..nan.nan_replay import replay, variables_of
from .request import end_rehearsal, find_rehearsal

__all__ = ["Rehearsal"]


class Rehearsal(Extension):
    """Extension that does what a command asks of this process, and ends the process; nothing if no command has started it."""

    def after_setup(self, trainer: Any) -> None:
        """
        Answer the request of the command.

        Raises:
            SystemExit: a command has started this process; with the exit code for `run_rehearsal`.
        """
        request = find_rehearsal()
        if request is None or trainer.arguments is None:
            return
        session_creator, session_init, steps_per_epoch, *_ = trainer.arguments
        if request.purpose == "lint":
            end_rehearsal(int(lint_only(trainer, session_init, steps_per_epoch)))
        trainer.initialize(session_creator, variables_of(request.step_directory))
        try:
            result = replay(trainer.sess, request.step_directory)
        finally:
            trainer.hooked_sess.close()
        end_rehearsal(result)
