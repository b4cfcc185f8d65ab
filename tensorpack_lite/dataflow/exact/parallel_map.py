"""
Parallel maps whose position is recorded: results in order, and random numbers that do not depend on the worker.

Results are given in the order in which their datapoints were submitted. The position is then the number of
results that were given, and the position of the source before the oldest datapoint in flight. A resumed map
reads the source again from there, and submits only the datapoints after that number.

Which worker maps a datapoint depends on the speed of all workers. So the random numbers of a map function
cannot come from a stream of the worker: in worker processes, all generators are seeded for each datapoint,
from its number.
"""

from __future__ import annotations

import random
import struct
import sys
import time
import zlib
from collections import deque
from typing import Any, Callable, Deque, Iterator, List

import numpy as np

from ...utils import logger
from ...utils.random_streams import collect_generators, get_rng, provide_generators
from ..base import DataFlow, Datapoint
from ..failure import function_name
from ..map_engine import WorkerPool
from .numbered_source import Numbered, NumberedSource
from .stage_position import State

_NUM_PROBES = 100
_MIN_STANDSTILL = 0.05
_MIN_STANDSTILL_SECONDS = 5.0


class ExactPool(WorkerPool):
    """
    A pool that yields results in order, and the position of the DataFlow that it maps.

    Args:
        pool: yields results in the order of their datapoints. It takes what `prepare` returns.
        ds: the DataFlow, which records its position. A restored one is at the snapshot of the saved state.
        prepare: takes a datapoint and its seed.

    Attributes:
        numbered: numbers the datapoints of `ds`; `submit` takes what it yields.
    """

    def __init__(self, pool: WorkerPool, ds: DataFlow, prepare: Callable[[Datapoint, int], Any] | None = None) -> None:
        self._pool = pool
        self._prepare = prepare
        with collect_generators():  # the key is saved instead of this generator
            self._key = int(get_rng(self).randint(2**32, dtype=np.uint32))
        self._num_given = self._last_submitted = 0
        # nothing is held for long, because results are in order
        self.numbered = NumberedSource(ds, self._oldest_in_flight, capacity=sys.maxsize)

    def submit(self, datapoint: Numbered) -> None:
        """Submit a datapoint of the numbered source."""
        self._last_submitted, prepared = datapoint
        if self._prepare is not None:
            prepared = self._prepare(prepared, zlib.crc32(struct.pack("<q", self._last_submitted), self._key))
        self._pool.submit(prepared)

    def collect(self) -> Datapoint | None:
        """Wait for the next result."""
        try:
            result = self._pool.collect()
        except Exception:  # it is the result of one datapoint
            self._num_given += 1
            raise
        self._num_given += 1
        return result

    def stop(self) -> None:
        """Stop all workers."""
        self._pool.stop()

    def state(self) -> State:
        """Return what to save in addition to the state of `ds`."""
        return {"key": self._key, "num_given": self._num_given, "tape": self.numbered.state()}

    def restore(self, state: State) -> int:
        """
        Return to a saved state: submit what was in flight.

        Returns:
            The number of datapoints in flight.
        """
        self._key, self._num_given = state["key"], state["num_given"]
        for numbered in self.numbered.read_up_to(state["tape"]):
            if numbered[0] > self._num_given:
                self.submit(numbered)
        return self.numbered.number - self._num_given

    def _oldest_in_flight(self) -> Iterator[Numbered]:
        if self._last_submitted > self._num_given:
            yield self._num_given + 1, None


# Order ---------------------------------------------------------------------------------------------------------------
class InArrival(Deque[Any]):
    """Results of worker processes, in the order in which they arrive."""

    def expect(self, index: int, num: int) -> None:
        """Announce that a worker was sent some datapoints."""

    def add(self, index: int, results: list[Any]) -> None:
        """Add results of a worker, which have the order of its datapoints."""
        self.extend(results)


class InOrder:
    """
    Results of worker processes, in the order in which their datapoints were sent. It has the methods of `InArrival`.

    Args:
        num_worker: number of workers.
    """

    def __init__(self, num_worker: int) -> None:
        self._workers: deque[int] = deque()  # of each result that is expected
        self._arrived: List[Deque[Any]] = [deque() for _ in range(num_worker)]

    def expect(self, index: int, num: int) -> None:
        """Announce that a worker was sent some datapoints."""
        self._workers.extend([index] * num)

    def add(self, index: int, results: list[Any]) -> None:
        """Add results of a worker, which have the order of its datapoints."""
        self._arrived[index].extend(results)

    def __bool__(self) -> bool:
        return bool(self._workers) and bool(self._arrived[self._workers[0]])

    def popleft(self) -> Datapoint | None:
        """Return the next result, which has arrived."""
        return self._arrived[self._workers.popleft()].popleft()

    def is_holding(self) -> bool:
        """Return whether there are results that wait for an earlier one."""
        return any(self._arrived)


class IdleShare:
    """
    The share of time in which workers had nothing to do because results wait for an earlier one.

    Args:
        who: the stage, for the log.
        num_worker: number of workers.
        buffer_size: that of the stage.
    """

    def __init__(self, who: str, num_worker: int, buffer_size: int) -> None:
        self._who = who
        self._num_worker = num_worker
        self._buffer_size = buffer_size
        self._begin = time.perf_counter()
        self._seconds = 0.0
        self._is_logged = False

    def add(self, num_idle: int, seconds: float) -> None:
        """Count a time in which some workers had nothing to do, and log once if the share is large."""
        self._seconds += num_idle * seconds
        share = self._seconds / (self._num_worker * max(time.perf_counter() - self._begin, 1e-9))
        if self._seconds > _MIN_STANDSTILL_SECONDS and share > _MIN_STANDSTILL and not self._is_logged:
            self._is_logged = True
            logger.info(
                f"{self._who}: its workers stood still for {share:.0%} of the time, because exact resume needs results in "
                f"order. Increase buffer_size (now {self._buffer_size})."
            )


# Random numbers ------------------------------------------------------------------------------------------------------
def with_seed(datapoint: Datapoint, seed: int) -> Any:
    """Return the message of a datapoint and its seed to a `SeededFunction`. Lists stay lists, which a channel sends fastest."""
    return [*datapoint, seed] if type(datapoint) is list else (datapoint, seed)


class SeededFunction:
    """
    A map function whose random numbers depend on the seed of its datapoint only. Created in the worker process.

    All calls of `get_rng` in this process return one generator, which is seeded for each datapoint. One is
    enough, and it does not matter when an augmentor asks for its generator, which differs between workers.
    `random` and `numpy.random` are seeded as well, if the function uses them.

    Args:
        function: takes a datapoint.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.__name__ = function_name(function)  # for the meter
        self._function = function
        self._generator: np.random.RandomState | None = None  # created when it is needed
        self._seed = 0
        self._global = _GlobalGenerators()
        provide_generators(self._provide)

    def __call__(self, message: Any) -> Datapoint | None:
        """Map what `with_seed` returned."""
        if type(message) is list:
            datapoint, self._seed = message, message.pop()
        else:
            datapoint, self._seed = message
        if self._generator is not None:
            self._generator.seed(self._seed)
        self._global.seed(self._seed)
        mapped = self._function(datapoint)
        self._global.probe()
        return mapped

    def _provide(self) -> np.random.RandomState:
        if self._generator is None:
            self._generator = np.random.RandomState(self._seed)
        return self._generator


class _GlobalGenerators:
    """`random` and `numpy.random`: seeding both takes 30 microseconds, so it is done only for functions that use them."""

    def __init__(self) -> None:
        self._num = 0
        self._are_used = False
        self._before: Any = None

    def seed(self, seed: int) -> None:
        """Seed both, unless the first 100 calls of the function have not used them."""
        if self._are_used or self._num < _NUM_PROBES:
            random.seed(seed)
            np.random.seed(seed ^ 0x5EED)
            self._before = None if self._are_used else global_states()

    def probe(self) -> None:
        """Find out whether the function uses them, after each of the first 100 datapoints and later after every 100."""
        if self._are_used:
            return
        self._num += 1
        if self._num > _NUM_PROBES and self._num % _NUM_PROBES:
            return
        self._are_used = global_states() != self._before
        if self._are_used and self._num > _NUM_PROBES:
            logger.warning(
                f"map_func has used random or numpy.random for the first time after {self._num} datapoints, so the last "
                f"{_NUM_PROBES} of them cannot be repeated exactly. Draw from a generator of get_rng() instead."
            )


def global_states() -> Any:
    """Return the states of Python's and NumPy's global generators, in a form that can be compared."""
    state: Any = np.random.get_state()
    return random.getstate(), state[1].tobytes(), state[2:]
