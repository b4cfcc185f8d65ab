"""Trainers for many machines that are not made any more: each name says which one does its work."""

from __future__ import annotations

from typing import Any

from .tower import SingleCostTrainer

__all__ = ["BytePSTrainer", "DistributedTrainerParameterServer", "DistributedTrainerReplicated"]

_INSTEAD = (
    "Use HorovodTrainer, or CollectiveTrainer, which needs nothing but TensorFlow: the same model and callbacks, started once "
    "for each process."
)


class _NoLongerMade(SingleCostTrainer):
    """Base of these names: constructing one raises."""

    _REASON = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: {self._REASON} {_INSTEAD}")


class BytePSTrainer(_NoLongerMade):
    """
    Kept for its name.

    Raises:
        NotImplementedError: always; names HorovodTrainer and CollectiveTrainer.

    tensorpack: trains there over BytePS.
    """

    _REASON = "training over BytePS is not part of this library."


class DistributedTrainerParameterServer(_NoLongerMade):
    """
    Kept for its name.

    Raises:
        NotImplementedError: always; names HorovodTrainer and CollectiveTrainer.

    tensorpack: trains there with parameter servers, on TensorFlow 1 only.
    """

    _REASON = "training with parameter servers on other machines needs parts of TensorFlow that went with TensorFlow 1."


class DistributedTrainerReplicated(_NoLongerMade):
    """
    Kept for its name.

    Raises:
        NotImplementedError: always; names HorovodTrainer and CollectiveTrainer.

    tensorpack: applies there gradients that were not averaged, on TensorFlow 1 only.
    """

    _REASON = (
        "replicated training through parameter servers needs parts of TensorFlow that went with TensorFlow 1."
    )
