"""Callback that checks that all ranks have the same variables."""

from __future__ import annotations

import zlib
from typing import Mapping, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..ranks.connecting import RankError
from ..utils.checks import check_at_least


class CheckReplicas(Callback):
    """
    Callback that checks at intervals that the variables of all ranks are bitwise equal.

    It compares checksums of the global variables that every rank has, except those in MODEL_VARIABLES, such
    as the statistics of BatchNorm, which differ because each rank has different data. In single-process
    training it does nothing.

    Args:
        every_k_steps: number of steps from one check to the next, >= 1.

    Runs at: setup_graph, before_train, trigger_step. In every process of a distributed training.

    Raises:
        ValueError: `every_k_steps` is less than 1.
        RankError: in training: a variable differs; the message names the first such variable and the rank.
    """

    _chief_only = False

    def __init__(self, every_k_steps: int = 1000) -> None:
        self._every = check_at_least("CheckReplicas: every_k_steps", every_k_steps, 1)

    def _setup_graph(self) -> None:
        own_to_each = {var.op.name for var in tf.model_variables()}
        self._variables = {v.op.name: v for v in tf.global_variables() if v.op.name not in own_to_each}

    def _trigger_step(self) -> None:
        channel = self.trainer.ranks.channel
        if channel.size == 1 or self.global_step % self._every:
            return
        values = self.trainer.sess.run(self._variables)
        mine = {name: checksum(value) for name, value in values.items()}
        name = f"comparing replicas after step {self.global_step}"
        everywhere = channel.gather(name, mine)
        found = channel.all_gather(f"the result of {name}", everywhere and _find_difference(everywhere))[0]
        if found is not None:
            variable, rank = found
            raise RankError(
                f"CheckReplicas: after step {self.global_step}, variable {variable} of rank {rank} differs from that of rank "
                "0. Look for code that changes it on one rank only."
            )


def _find_difference(everywhere: Sequence[Mapping[str, int]]) -> tuple[str, int] | None:
    """Return the first variable whose checksum differs from that of rank 0, and the rank; variables that a rank lacks are omitted."""
    for name, first in everywhere[0].items():
        for rank, theirs in enumerate(everywhere):
            if theirs.get(name, first) != first:
                return name, rank
    return None


def checksum(value: object, start: int = 0) -> int:
    """
    Return a checksum of a value; equal values have equal checksums.

    Args:
        value: an array, or anything that NumPy can convert to an array.
        start: the checksum of the values before it.
    """
    array = np.asarray(value)
    return zlib.crc32(repr(value).encode("utf-8") if array.dtype == object else array.tobytes(), start)
