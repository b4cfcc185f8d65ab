"""The answers to `tensorpack-lite lint`, `nan-replay` and `summary`, which need no step of the training."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from ...loop.extension import ExtendedTrainer, Extension
from ..lint.lint import lint_only
from ..model_summary.show import show_summary
from ..model_summary.summary import summarize
from ..nan.nan_replay import replay, variables_of
from .request import arguments_of, end_probe


class LintOnce(Extension):
    """
    Extension that looks for mistakes, and ends the process.

    Args:
        options: not used.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        pass

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Examine the training.

        Raises:
            SystemExit: always.
        """
        _, session_init, steps_per_epoch, *_ = arguments_of(trainer)
        end_probe(int(lint_only(trainer, session_init, steps_per_epoch)))


class ReplayStep(Extension):
    """
    Extension that runs a recorded step, and ends the process.

    Args:
        options: `step_directory`, the directory that `TerminateOnNaN` wrote.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._directory: str = options["step_directory"]

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Run the step.

        Raises:
            SystemExit: always.
        """
        trainer.initialize(arguments_of(trainer).session_creator, variables_of(self._directory))
        try:
            result = replay(trainer.sess, self._directory)
        finally:
            trainer.hooked_sess.close()
        end_probe(result)


class ShowSummary(Extension):
    """
    Extension that prints the summary of the model, and ends the process.

    Args:
        options: not used.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        pass

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Print the summary.

        Raises:
            SystemExit: always.
        """
        if trainer.is_chief:
            sys.stdout.write(f"{show_summary(summarize(trainer))}\n")
            sys.stdout.flush()
        end_probe(0)
