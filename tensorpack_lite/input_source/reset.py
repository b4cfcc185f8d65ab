"""The callback that resets an input, and by which the inputs of a trainer are found."""

from __future__ import annotations

from typing import Any

from ..loop.callback_factory import CallbackFactory
from ..loop.trainer import LoopTrainer


class ResetInput(CallbackFactory):
    """
    The first callback of each input: resets it in before_train.

    Args:
        source: the InputSource.

    Attributes:
        source: as given.

    Runs at: before_train.
    """

    def __init__(self, source: Any) -> None:
        super().__init__(before_train=lambda _: source.reset_state())
        self.source = source

    def __str__(self) -> str:
        return "CallbackFactory"  # its name in the checkpoints of version 0.1.0


def inputs_of(trainer: LoopTrainer) -> list[Any]:
    """Return the InputSources of the training steps, without those of inference."""
    return [reset.source for reset in trainer.find_callbacks(ResetInput)]
