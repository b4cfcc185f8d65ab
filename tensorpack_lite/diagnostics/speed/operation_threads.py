"""The extension that chooses the number of threads for each operation of a training."""

from __future__ import annotations

from typing import Any

from ...input_source.batch_size import samples_per_datapoint
from ...input_source.reset import inputs_of
from ...loop.extension import ExtendedTrainer, Extension
from ...loop.trainer import LoopTrainer, find_step_ops, session_config
from ...tfutils.exact.state import find_exact
from ...tfutils.not_repeatable import Operation, find_not_repeatable
from ...tfutils.operation_threads import (
    Work,
    choose_threads,
    measure_or_warn,
    measure_work,
    predict_gain,
    set_threads,
    threads_in,
)
from ...utils import logger
from ...utils.checks import check_count
from ...utils.cores import usable_cores
from ...utils.gpu import get_num_gpu


class OperationThreads(Extension):
    """
    Extension that chooses the number of threads for each operation on a CPU, before the session is created.

    All cores are faster for large operations. One thread is faster for small ones, because several of them then run at the same
    time. See docs/speed.md.

    Args:
        threads: the number; 0 means all cores, None the one that is predicted to be faster.

    Attributes:
        threads: as given.
        is_predicted: whether the number in use is the one that is predicted to be faster.

    Raises:
        ValueError: the number is negative or not whole.
    """

    state_name = "intra_op_threads"

    def __init__(self, threads: int | None = None) -> None:
        self.is_predicted = False
        self.threads = None if threads is None else check_count("TrainConfig: intra_op_threads", threads)

    def after_setup(self, trainer: ExtendedTrainer) -> None:
        """Set the number in the config of the session, unless the user has given one."""
        if trainer.arguments is not None:
            creator = trainer.arguments.session_creator
            reason = set_threads(creator, lambda: _work_of(trainer), _cores_of(trainer), self.threads)
            if reason:
                self.is_predicted = True
                logger.info(reason)

    def state_dict(self, trainer: ExtendedTrainer) -> Any:
        """Return the number with which the training computes; None without exact resume."""
        return None if find_exact() is None else threads_of(trainer)

    def load_state_dict(self, trainer: ExtendedTrainer, state: Any) -> None:
        """Compare the number with the saved one, because sums of several threads may be rounded in another order."""
        exact, now = find_exact(), threads_of(trainer)
        if exact is not None and now is not None and state != now:
            exact.warn_or_raise(
                f"Each operation had {state or 'all'} threads and has {now or 'all'}, so sums may be rounded differently. To have the same "
                f"number, use TrainConfig(intra_op_threads={state})."
            )


def advise_threads(trainer: ExtendedTrainer) -> str:
    """Return a sentence if another number of threads for each operation is predicted to be faster; otherwise ""."""
    now, cores = threads_of(trainer), _cores_of(trainer)
    is_predicted = any(isinstance(part, OperationThreads) and part.is_predicted for part in trainer.extensions)
    if is_predicted or now is None or cores < 2 or get_num_gpu():
        return ""
    work = measure_or_warn(lambda: _work_of(trainer))
    if work is None:
        return ""
    best, gain = choose_threads(work, cores), predict_gain(work, cores)
    if (now == 1) == (best == 1):
        return ""
    return f" With {best} thread{'s' if best > 1 else ''} for each operation, a step may take {gain if best > 1 else 1 / gain:.2f} of the time."


def threads_of(trainer: LoopTrainer) -> int | None:
    """Return the number in the config of the session, where 0 means all cores; None if the config is not known."""
    config = session_config(trainer)
    return None if config is None else int(config.intra_op_parallelism_threads)


def operations_not_repeatable(trainer: LoopTrainer) -> list[Operation]:
    """Return the operations of a step whose results may differ between two runs with the same inputs, with the number of threads."""
    return find_not_repeatable(find_step_ops(trainer), threads_in(session_config(trainer)))


def _cores_of(trainer: ExtendedTrainer) -> float:
    return usable_cores() / max(1, trainer.local_size)


def _work_of(trainer: ExtendedTrainer) -> Work:
    towers: Any = [] if trainer.tower_func is None else list(trainer.tower_func.towers.training())
    inputs = [tensor for tower in towers for tensor in tower.inputs]
    source = next(iter(inputs_of(trainer)), None)
    batch = samples_per_datapoint(towers, source)
    return measure_work(find_step_ops(trainer), inputs, batch)
