"""The answers to commands that need no step of the training: those to `lint`, `nan-replay` and `summary`, and how to give one."""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping

from ...loop.extension import ExtendedTrainer, Extension
from ..lint.lint import lint_only
from ..model_summary.show import show_summary
from ..model_summary.summary import summarize
from ..nan.nan_replay import replay, variables_of
from .request import arguments_of, end_probe


class Once(Extension):
    """
    Extension that answers when the callbacks are set up, and ends the process.

    Args:
        answer: `f(trainer, options) -> result`, one of the functions below; the result is that of the command.
        options: those of the request.
    """

    def __init__(self, answer: Callable[[ExtendedTrainer, Mapping[str, Any]], int], options: Mapping[str, Any]) -> None:
        self._answer, self._options = answer, options

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Answer.

        Raises:
            SystemExit: always.
        """
        result = self._answer(trainer, self._options)
        sys.stdout.flush()
        end_probe(result)


def lint_once(trainer: ExtendedTrainer, _options: Mapping[str, Any]) -> int:
    """Look for mistakes."""
    _, session_init, steps_per_epoch, *_ = arguments_of(trainer)
    return int(lint_only(trainer, session_init, steps_per_epoch))


def replay_step(trainer: ExtendedTrainer, options: Mapping[str, Any]) -> int:
    """Run a recorded step: that of `step_directory`, the directory that `TerminateOnNaN` wrote."""
    directory = options["step_directory"]
    trainer.initialize(arguments_of(trainer).session_creator, variables_of(directory))
    try:
        return replay(trainer.sess, directory)
    finally:
        trainer.hooked_sess.close()


def print_summary(trainer: ExtendedTrainer, _options: Mapping[str, Any]) -> int:
    """Print the summary of the model."""
    if trainer.is_chief:
        sys.stdout.write(f"{show_summary(summarize(trainer))}\n")
    return 0
