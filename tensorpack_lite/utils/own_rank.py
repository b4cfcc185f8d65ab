"""
The rank of this process, as the program that has started it tells by environment variables.

All parts of the library that must know it before a trainer exists ask here, such as the logger, since only rank 0 may
change a directory that all ranks share. `ranks/rank_info.py` adds where the ranks meet.
"""

from __future__ import annotations

import json
import os
from typing import Iterator, Mapping, NamedTuple


class GivenRank(NamedTuple):
    """
    The place of a process among those that were started together.

    Attributes:
        rank: its number, from 0.
        size: the number of processes; None if it is not known.
        source: the variable that has the rank.
        launcher: the program that sets it, such as "srun"; the variable itself if any program may set it.
    """

    rank: int
    size: int | None
    source: str
    launcher: str


class _Source(NamedTuple):
    """A launcher with its variables for the rank and the size, and those that must be set besides."""

    launcher: str
    rank: str
    size: str
    needed: tuple[str, ...] = ()


_SIZE = "TENSORPACK_RANKS_SIZE"
_JOBS = ("chief", "master", "worker")  # of TF_CONFIG, in the order of ranks; other jobs follow
# The first one that is present counts: a launcher that runs inside another one comes first.
_SOURCES = (
    _Source("TENSORPACK_RANK", "TENSORPACK_RANK", _SIZE, ("TENSORPACK_RANK",)),
    _Source("TF_CONFIG", "TF_CONFIG", ""),
    _Source("torchrun", "RANK", "WORLD_SIZE", ("RANK", "WORLD_SIZE")),  # other programs set one of them
    _Source("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE"),
    _Source("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    _Source("mpiexec", "PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    # A batch script has the rank 0, but no step.
    _Source("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ("SLURM_STEP_ID",)),
    _Source("Kubernetes", "JOB_COMPLETION_INDEX", _SIZE, ("JOB_COMPLETION_INDEX", _SIZE)),
)


def list_given_ranks(environment: Mapping[str, str]) -> Iterator[GivenRank]:
    """
    Yield the rank of a process according to each source that is present; the first one counts.

    The sources are `TENSORPACK_RANK`, `TF_CONFIG` (set by `tensorpack_lite.launch`), `RANK` with `WORLD_SIZE` (torchrun), Horovod,
    Open MPI, MPICH, `srun` and, if `TENSORPACK_RANKS_SIZE` is set, the index of a Kubernetes Job, in this order. In `TF_CONFIG`,
    rank 0 is the first task of the jobs `chief`, `master`, `worker` and others, in this order; a task that the cluster does not
    list, such as an evaluator, has a rank after all others.

    Args:
        environment: the variables of the process.

    Raises:
        ValueError: a source has a rank without a size or a size without a rank, one of them is not a number, or the rank
            is not below the size.
    """
    is_found = False
    for source in _SOURCES:
        rank = _read(source, environment)
        if rank is not None and not _is_task_of_step(rank, environment):
            is_found = True
            yield rank
    if not is_found and environment.get(_SIZE, "") not in ("", "1"):
        raise ValueError(
            f"{_SIZE}={environment[_SIZE]} is set, but no variable has the rank of this process. Set TENSORPACK_RANK to its number, "
            f"from 0; or {_SIZE}=1 to train alone."
        )


def find_given_rank(environment: Mapping[str, str] | None = None) -> GivenRank | None:
    """
    Find the rank of a process.

    Args:
        environment: its variables; None means those of this process.

    Returns:
        The rank from the first source of `list_given_ranks`; None if there is none, if the process was started alone, or if
        `TENSORPACK_RANKS_SIZE` is 1, which says that processes that were started together train separately.

    Raises:
        ValueError: the variables are not valid; see `list_given_ranks`.
    """
    variables = os.environ if environment is None else environment
    if variables.get(_SIZE, "").strip() == "1":
        return None
    rank = next(list_given_ranks(variables), None)
    return None if rank is None or rank.size == 1 else rank


def given_rank() -> int | None:
    """Return the rank of this process; None if it was started alone. See `find_given_rank`."""
    rank = find_given_rank()
    return None if rank is None else rank.rank


def _read(source: _Source, variables: Mapping[str, str]) -> GivenRank | None:
    if source.launcher == "TF_CONFIG":
        return _read_tf_config(variables.get("TF_CONFIG", ""))
    rank, size = (variables.get(name, "").strip() for name in (source.rank, source.size))
    if not all(variables.get(name) for name in source.needed) or not (rank or size):
        return None
    if not (rank.isdigit() and size.isdigit()):
        problem = f"{source.rank}={rank} and {source.size}={size} are not two numbers"
    elif int(rank) >= int(size):
        problem = f"{source.rank}={rank} is not below {source.size}={size}"
    else:
        return GivenRank(int(rank), int(size), source.rank, source.launcher)
    raise ValueError(
        f"{problem} ({source.launcher}). Expected the number of this process, from 0, and the number of processes. To train "
        f"alone, set {_SIZE}=1."
    )


def _is_task_of_step(rank: GivenRank, variables: Mapping[str, str]) -> bool:
    """Return whether PMI_RANK is that of `srun --mpi=pmi2`, rather than of an mpiexec that srun's task has started."""
    step = [variables.get(name, "") for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")]
    return rank.launcher == "mpiexec" and "SLURM_STEP_ID" in variables and [str(rank.rank), str(rank.size)] == step


def _read_tf_config(text: str) -> GivenRank | None:
    """Find the task among the cluster's. A text that is not valid is an error only for a trainer that uses it."""
    try:
        config = json.loads(text)
        jobs, own_task = config["cluster"], config.get("task", {})
        other_jobs = sorted(set(jobs) - {*_JOBS})
        tasks = [(job, index) for job in (*_JOBS, *other_jobs) for index in range(len(jobs.get(job, ())))]
        task = (str(own_task.get("type", "worker")), int(own_task.get("index", 0)))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    if task in tasks:
        return GivenRank(tasks.index(task), len(tasks), "TF_CONFIG", "TF_CONFIG")
    # An evaluator is usually not listed. It must not be taken for the chief.
    is_given = bool(tasks) and "type" in own_task
    return GivenRank(len(tasks) + max(task[1], 0), None, "TF_CONFIG", "TF_CONFIG") if is_given else None
