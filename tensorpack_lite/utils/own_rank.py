"""
The rank of this process, as the program that has started it tells by environment variables.

All parts of the library that must know it before a trainer exists ask here, such as the logger, since only rank 0 may
change a directory that all ranks share.
"""

from __future__ import annotations

import json
import os
from typing import Mapping, NamedTuple

__all__ = ["GivenRank", "find_given_rank", "given_rank"]


class GivenRank(NamedTuple):
    """
    The place of a process among those that were started together.

    Attributes:
        rank: its number, from 0.
        size: the number of processes; None if it is not known.
        source: the variable that has the rank.
    """

    rank: int
    size: int | None
    source: str


class _Source(NamedTuple):
    """Variables with the rank and the size, and one that must be set besides, or ""."""

    rank: str
    size: str
    needed: str = ""


_JOBS = ("chief", "master", "worker")  # of TF_CONFIG, in the order of ranks; other jobs follow
# The first one that is present counts: a launcher that runs inside another one comes first.
_SOURCES = (
    _Source("RANK", "WORLD_SIZE", "MASTER_ADDR"),  # torchrun
    _Source("HOROVOD_RANK", "HOROVOD_SIZE"),
    _Source("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    _Source("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    _Source(
        "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"
    ),  # a batch script has the rank 0, but no step
)


def find_given_rank(environment: Mapping[str, str] | None = None) -> GivenRank | None:
    """
    Find the rank of a process.

    Args:
        environment: its variables; None means those of this process.

    Returns:
        The rank from `TENSORPACK_RANK`, or else from `TF_CONFIG` (set by `tensorpack_lite.launch`), `torchrun`, Horovod,
        Open MPI, MPICH or `srun`, in this order. In `TF_CONFIG`, rank 0 is the first task of the jobs `chief`, `master`, `worker` and
        others, in this order; a task that the cluster does not list, such as an evaluator, has a rank after all others. None if none of them is set, if the process was started alone, or if
        `TENSORPACK_RANKS_SIZE` is 1, which says that processes that were started together train separately.
    """
    variables = os.environ if environment is None else environment
    size = _integer(variables, "TENSORPACK_RANKS_SIZE")
    if size == 1:
        return None
    rank = _integer(variables, "TENSORPACK_RANK")
    if rank is not None:
        return GivenRank(rank, size, "TENSORPACK_RANK")
    return _read_tf_config(variables.get("TF_CONFIG", "")) or _read_sources(variables)


def given_rank() -> int | None:
    """Return the rank of this process; None if it was started alone. See `find_given_rank`."""
    given = find_given_rank()
    return None if given is None else given.rank


def _read_sources(variables: Mapping[str, str]) -> GivenRank | None:
    for source in _SOURCES:
        rank, size = _integer(variables, source.rank), _integer(variables, source.size)
        if rank is not None and (not source.needed or variables.get(source.needed)):
            return None if size == 1 else GivenRank(rank, size, source.rank)
    return None


def _read_tf_config(text: str) -> GivenRank | None:
    """Find the task among the cluster's. A text that is not valid is an error only for a trainer that uses it."""
    try:
        config = json.loads(text)
        jobs, given = config["cluster"], config.get("task", {})
        others = sorted(set(jobs) - {*_JOBS})
        tasks = [(job, index) for job in (*_JOBS, *others) for index in range(len(jobs.get(job, ())))]
        task = (str(given.get("type", "worker")), int(given.get("index", 0)))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    if task in tasks:
        return None if len(tasks) == 1 else GivenRank(tasks.index(task), len(tasks), "TF_CONFIG")
    # An evaluator is usually not listed. It must not be taken for the chief.
    return GivenRank(len(tasks) + max(task[1], 0), None, "TF_CONFIG") if tasks and "type" in given else None


def _integer(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "").strip()
    return int(text) if text.isdigit() else None
