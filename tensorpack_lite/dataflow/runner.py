"""
DataFlows that run in worker processes, ahead of their consumer.

In:  a DataFlow. Each worker process resets its own copy and repeats it without end.
Out: the datapoints of all workers, mixed, in the process that iterates.
"""

from __future__ import annotations

from typing import Iterator

from ..utils.checks import check_at_least
from .base import DataFlow, DataFlowReentrantGuard, Datapoint
from .exact.runner import EndlessRunner, WorkersInTurn, run_in_worker, states_to_restore
from .exact.stage_position import State
from .process.channel import MAX_SLOTS
from .process.worker import CHUNK_LENGTH, Settings, Task
from .repeat import run_without_end
from .workers import DataFromWorkers


class _ProcessRunner(EndlessRunner, DataFromWorkers):
    """Base class for the two runners, whose arguments have different names."""

    _max_ahead: int  # maximum number of datapoints that wait in a worker

    def _tasks(self) -> list[Task]:
        ahead = self._max_ahead
        settings = Settings(max(2, min(MAX_SLOTS, ahead)), ahead, min(CHUNK_LENGTH, ahead))
        where = f"in the DataFlow {type(self.ds).__name__}"
        if self._stage_position is None:
            return [Task(where, run_without_end, (self.ds,), settings)] * self.num_proc
        states = states_to_restore(type(self).__name__, self.num_proc, self._stage_position.own_state_to_restore())
        return [Task(where, run_in_worker, (self.ds, *state), settings) for state in states]

    def reset_state(self) -> None:
        super().reset_state()
        if self._stage_position is not None:
            saved = self._stage_position.own_state_to_restore()
            self._in_turn = WorkersInTurn(self.num_proc, self._group.receive_from, saved)

    def _restore_own_state(self, state: State) -> None:
        """Wait for the workers, which return to the saved position or send an error."""
        assert self._in_turn is not None, "bug: reset_state() has not finished"
        try:
            self._in_turn.wait()
        except BaseException:  # also after Ctrl-C no workers may keep running
            self._group.stop()
            self._group = None
            raise


class MultiProcessRunnerZMQ(_ProcessRunner):
    """
    DataFlow that runs another one in worker processes, which send their datapoints to the current process.

    Large arrays are sent through shared memory, and yielded without a copy where possible. Small datapoints are sent
    in chunks. The name is tensorpack's; between processes of one machine no ZMQ is used.

    Length: that of `ds`. All passes read one endless stream, so a pass continues where the last one stopped or was
        left. If `ds` has no length, a pass never ends.
    Order: that of `ds` with one worker. Each worker runs all of `ds`, so with several workers each datapoint is yielded
        `num_proc` times, in mixed order. This suits random training data, but not testing. If the position is
        recorded, the workers take turns.
    Process: `reset_state` starts `num_proc` processes with the start method of multiprocessing. They end when this
        object is deleted and when the current process ends, even if it is killed. After `fix_rng_seed` each worker has
        a different random stream, which is the same in every run.

    Args:
        ds: the DataFlow. With the start methods spawn and forkserver it must be picklable.
        num_proc: number of workers.
        hwm: how far a worker runs ahead: at most `hwm` datapoints wait to be sent (the worker holds one more), and at
            most `hwm` messages, but no more than 16, are in transit. A message is one datapoint, or up to 64
            small ones.

    Raises:
        ValueError: `num_proc` or `hwm` is below 1.
        BaseException: (while iterating) `ds` raised it in a worker. It has the same type, and the worker's traceback is
            its cause. WorkerDied (a RuntimeError) means that a worker was killed or crashed. The workers are stopped.
        RuntimeError: (while iterating) there is a second iterator.

    Note:
        A worker uses up to 256 MB of shared memory. `$TENSORPACK_SHARED_MEMORY_MB` sets another limit; 0 turns
        shared memory off. A larger message is sent through a socket, which is slower; the first time, a
        warning is logged. You may keep and change the arrays: their memory is reused only after they are
        garbage-collected.

    Source: `benchmarks/processes.py` measures the speed.
    """

    def __init__(self, ds: DataFlow, num_proc: int = 1, hwm: int = 50) -> None:
        super().__init__(ds, num_proc)
        self._max_ahead = check_at_least("MultiProcessRunnerZMQ: hwm", hwm, 1)
        self._guard = DataFlowReentrantGuard()

    def iter_from(self, num_done: int) -> Iterator[Datapoint]:
        """Yield the next datapoints of the stream."""
        with self._guard:
            yield from super().iter_from(num_done)


class MultiProcessRunner(_ProcessRunner):
    """
    DataFlow that runs another one in worker processes. Like MultiProcessRunnerZMQ, with an older signature.

    Length: as MultiProcessRunnerZMQ.
    Order: as MultiProcessRunnerZMQ.
    Process: as MultiProcessRunnerZMQ.

    Args:
        ds: the DataFlow. With the start methods spawn and forkserver it must be picklable.
        num_prefetch: number of datapoints that wait to be sent, in all workers together. Each worker holds one more,
            and others are in transit.
        num_proc: number of workers.

    Raises:
        ValueError: `num_prefetch` or `num_proc` is below 1.
        BaseException: (while iterating) as MultiProcessRunnerZMQ.

    Note:
        Several iterators may run at once; they share one stream.
    """

    def __init__(self, ds: DataFlow, num_prefetch: int, num_proc: int = 1) -> None:
        super().__init__(ds, num_proc)
        self.num_prefetch = check_at_least("MultiProcessRunner: num_prefetch", num_prefetch, 1)
        self._max_ahead = -(-num_prefetch // num_proc)


MultiProcessPrefetchData = MultiProcessRunner
PrefetchData = MultiProcessRunner
PrefetchDataZMQ = MultiProcessRunnerZMQ
