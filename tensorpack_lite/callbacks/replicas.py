"""Have the ranks of a training drifted apart?"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..utils.ranks import RankError

__all__ = ["CheckReplicas", "checksum"]


class CheckReplicas(Callback):
    """
    Compare the variables of all ranks now and then: where training is right they are equal to the bit.

    It compares checksums of the global variables that every rank has; not those in MODEL_VARIABLES, such as the statistics of
    BatchNorm, which each rank takes from its own data. In a process that trains alone it does nothing.

    Args:
        every_k_steps: how often, in steps.

    Runs at: each step.

    Raises:
        ValueError: `every_k_steps` is less than 1.
        RankError: in training: names the first variable that differs, and the rank.

    tensorpack: new.
    """

    _chief_only = False

    def __init__(self, every_k_steps: int = 1000) -> None:
        if every_k_steps < 1:
            raise ValueError(f"CheckReplicas: every_k_steps is {every_k_steps}, wanted at least 1.")
        self._every = every_k_steps
        self._channel: Any = None

    def _setup_graph(self) -> None:
        own_to_each = {var.op.name for var in tf.model_variables()}
        self._variables = {v.op.name: v for v in tf.global_variables() if v.op.name not in own_to_each}

    def _before_train(self) -> None:
        ranks = getattr(self.trainer, "ranks", None)
        self._channel = None if ranks is None else ranks.channel

    def _trigger_step(self) -> None:
        if self._channel is None or self.global_step % self._every:
            return
        values = self.trainer.sess.run(self._variables)
        mine = {name: checksum(value) for name, value in values.items()}
        everywhere = self._channel.all_gather(f"comparing replicas after step {self.global_step}", mine)
        for name, first in everywhere[0].items():
            for rank, theirs in enumerate(everywhere):
                if theirs.get(name, first) != first:
                    raise RankError(
                        f"CheckReplicas: after step {self.global_step} variable {name} of rank {rank} differs from that of rank 0. "
                        "Something changes it on one rank only."
                    )


def checksum(value: Any, start: int = 0) -> int:
    """
    Sum up what a value is made of; equal values have equal sums.

    Args:
        value: an array, or anything that NumPy makes one of.
        start: the sum of what came before it.
    """
    array = np.asarray(value)
    return zlib.crc32(repr(value).encode("utf-8") if array.dtype == object else array.tobytes(), start)
