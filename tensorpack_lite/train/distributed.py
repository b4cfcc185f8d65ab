"""Placeholders for tensorpack's distributed trainers that this library lacks. The constructors' errors name the replacements."""

from __future__ import annotations

from .tower import SingleCostTrainer


class _RemovedTrainer(SingleCostTrainer):
    """Base class of these names: constructing one raises."""

    _REASON = ""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise NotImplementedError(
            f"{type(self).__name__}: {self._REASON} Use HorovodTrainer, or CollectiveTrainer, which needs only TensorFlow, with the "
            "same model and callbacks. Start the script once for each process."
        )


class BytePSTrainer(_RemovedTrainer):
    """
    Removed trainer over BytePS.

    Raises:
        NotImplementedError: always; names HorovodTrainer and CollectiveTrainer.

    Difference from tensorpack: tensorpack 0.11 trains over BytePS. This library has only the name.
    """

    _REASON = "training over BytePS is not part of this library."


class DistributedTrainerParameterServer(_RemovedTrainer):
    """
    Removed trainer with parameter servers on other machines.

    Raises:
        NotImplementedError: always; names HorovodTrainer and CollectiveTrainer.

    Difference from tensorpack: tensorpack 0.11 trains with parameter servers, on TensorFlow 1. This library
    has only the name.
    """

    _REASON = (
        "training with parameter servers on other machines needs parts of TensorFlow that exist only in TensorFlow 1."
    )


class DistributedTrainerReplicated(_RemovedTrainer):
    """
    Removed trainer with replicas on other machines.

    Raises:
        NotImplementedError: always; names HorovodTrainer and CollectiveTrainer.

    Difference from tensorpack: tensorpack 0.11 trains replicas through parameter servers, on TensorFlow 1.
    This library has only the name.
    """

    _REASON = "replicated training through parameter servers needs parts of TensorFlow that exist only in TensorFlow 1."
