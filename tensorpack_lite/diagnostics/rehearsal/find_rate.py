"""The answer to `tensorpack-lite find-lr`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Any, Iterator, Mapping

from ...callbacks.param.finder import LearningRateFinder
from ...loop.callback import Callback
from ...loop.extension import Extension
from ...loop.state import StopTraining
from .request import end_rehearsal


class FindRate(Extension):
    """
    Extension that adds a `LearningRateFinder`, and ends the process after it.

    Args:
        options: the arguments of the LearningRateFinder.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    def before_setup(self, trainer: Any) -> None:
        """Register the finder, and a callback that ends the training after it."""
        self._finder = LearningRateFinder(**self._options)
        trainer.register_callback([self._finder, _StopAfterFirstStep()])

    @contextmanager
    def around_training(self, trainer: Any) -> Iterator[None]:
        """
        Print the proposal after the training.

        Raises:
            SystemExit: after a training without an error.
        """
        yield
        if trainer.is_chief:
            sys.stdout.write(f"{_describe(self._finder)}\n")
            sys.stdout.flush()
        end_rehearsal(0 if self._finder.proposal is not None else 1)


class _StopAfterFirstStep(Callback):
    """
    Callback that ends the training after its first step.

    Runs at: trigger_step.
    """

    _chief_only = False

    def _trigger_step(self) -> None:
        raise StopTraining("the command needs only the first step")


def _describe(finder: LearningRateFinder) -> str:
    name, num = finder.param.readable_name, len(finder.rates)
    tried = f"{num} steps with {name} from {finder.rates[0]:.2g} to {finder.rates[-1]:.2g}"
    if finder.proposal is None:
        return f"{tried}. No proposal, because {finder.reason}"
    return f"{tried}; proposed rate: {finder.proposal:.2g}"
