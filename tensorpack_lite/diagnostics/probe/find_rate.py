"""The answer to `tensorpack-lite find-lr`."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from ...callbacks.param.finder import LearningRateFinder
from ...loop.callback import Callback
from ...loop.extension import ExtendedTrainer, Extension
from .request import end_probe


class FindRate(Extension):
    """
    Extension that adds a `LearningRateFinder`, and ends the process after it.

    Args:
        options: the arguments of the LearningRateFinder.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """Register the finder, and a callback that ends the process after it."""
        finder = LearningRateFinder(**self._options)
        trainer.register_callback([finder, _Answer(finder)])


class _Answer(Callback):
    """
    Callback that prints the proposal, and ends the process.

    The training is thus interrupted, not finished: callbacks do nothing that belongs to its end, such as to restore the best model.

    Runs at: trigger_step.
    """

    _chief_only = False

    def __init__(self, finder: LearningRateFinder) -> None:
        self._finder = finder

    def _trigger_step(self) -> None:
        if self.trainer.is_chief:
            sys.stdout.write(f"{_describe(self._finder)}\n")
            sys.stdout.flush()
        end_probe(0 if self._finder.proposal is not None else 1)


def _describe(finder: LearningRateFinder) -> str:
    name, num = finder.param.readable_name, len(finder.rates)
    tried = f"{num} steps with {name} from {finder.rates[0]:.2g} to {finder.rates[-1]:.2g}"
    if finder.proposal is None:
        return f"{tried}. No proposal, because {finder.reason}"
    return f"{tried}; proposed rate: {finder.proposal:.2g}"
