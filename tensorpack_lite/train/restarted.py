"""A warning about jobs that a launcher starts again where their checkpoints are not."""

from __future__ import annotations

import os
import socket
from typing import Mapping

from ..utils import logger

__all__ = ["find_restart", "warn_of_lost_checkpoint"]

# Each counts how often a job was started again: SLURM's requeue, torchrun, tensorpack_lite.launch.
_COUNTS = ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "TENSORPACK_RANKS_RESTART")


def find_restart(environment: Mapping[str, str] | None = None) -> str | None:
    """
    Return how a launcher says that it has started this job again, e.g. "SLURM_RESTART_COUNT=2".

    Args:
        environment: the variables; None means those of this process.

    Returns:
        The first variable with a number above 0; None if there is none.
    """
    variables = os.environ if environment is None else environment
    found = ((name, variables.get(name, "").strip()) for name in _COUNTS)
    return next((f"{name}={text}" for name, text in found if text.isdecimal() and int(text) > 0), None)


def warn_of_lost_checkpoint(directory: str) -> None:
    """Log a warning if this job was started again. Call it on the chief if the directory has no checkpoint."""
    restart = find_restart()
    if restart is not None:
        logger.warning(
            f"This job was started again ({restart}), but {directory} on {socket.gethostname()} has no checkpoint, so training "
            "begins anew. If rank 0 was on another machine before, use a directory on a shared disk: docs/several_machines.md."
        )
