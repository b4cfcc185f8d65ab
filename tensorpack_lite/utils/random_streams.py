"""
Reproducible random streams for objects, processes and resumed training runs.

Every random object of the library draws from a `RandomState` that `get_rng` returns. Without a fixed seed, each starts
from fresh entropy of the operating system. After `fix_rng_seed(seed)`, a stream depends on the seed, on the
process that creates it, and on the number of streams created in that process before. Two objects therefore
never share a stream, and a script that does the same things in the same order gets the same streams, with
every version of NumPy.

A runner that starts workers calls `make_worker_streams(n)`, and each worker begins with
`enter_worker_stream`, which also carries the seed to spawned workers. A forked process that does not call it
is identified by its name (`Process-1`, ...), which is the same in every run.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import multiprocessing
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, NamedTuple, Tuple, Union

if TYPE_CHECKING:
    import numpy as np


def get_rng(obj: object = None) -> np.random.RandomState:
    """
    Return a new random generator.

    Args:
        obj: the object that will use it. Ignored; tensorpack's scripts pass it.

    Returns:
        A new `RandomState`: the next reproducible stream of this process after `fix_rng_seed`, otherwise one with fresh
        entropy.

    Example:
        >>> fix_rng_seed(42)
        >>> get_rng().randint(100) == get_rng().randint(100)
        False

    Note:
        With a fixed seed, the order of the calls matters. Create generators in one thread.

    Difference from tensorpack: with a fixed seed, tensorpack 0.11 gives every object of every process the same stream.
    Here each object has another one.
    """
    if _stream.provide is not None:
        return _stream.provide()
    key = _stream.next_key()
    generator = derive_generator((os.urandom(32),) if key is None else key)
    if _collections.lists:
        _collections.lists[-1].append(generator)
    return generator


def derive_generator(key: tuple[Any, ...]) -> np.random.RandomState:
    """Return a generator that depends only on a key of numbers and strings."""
    import numpy as np

    # RandomState's seeding by an array never changes; SeedSequence differs between NumPy 1.18 and 1.19
    return np.random.RandomState(np.frombuffer(_digest(key), dtype="<u4"))


def derive_number(key: tuple[Any, ...]) -> int:
    """Return a number of 63 bits that depends only on a key of numbers and strings."""
    return int.from_bytes(_digest(key)[:8], "little") >> 1


def _digest(key: tuple[Any, ...]) -> bytes:
    return hashlib.sha256(repr(key).encode()).digest()


@contextmanager
def collect_generators() -> Iterator[list[np.random.RandomState]]:
    """
    Collect the generators that `get_rng` creates in this thread inside the block, without those of inner blocks.

    Yields:
        A list, which grows inside the block.
    """
    generators: list[np.random.RandomState] = []
    _collections.lists.append(generators)
    try:
        yield generators
    finally:  # not `pop`: the block of a training that failed early ends when its graph is deleted, in any thread
        _collections.lists = [kept for kept in _collections.lists if kept is not generators]


def save_generator(generator: Any) -> list[Any]:
    """
    Return the state of a generator, as JSON values.

    Args:
        generator: a `RandomState`, or the module `numpy.random`.
    """
    _, key, position, has_gauss, gauss = generator.get_state()
    return [base64.b64encode(key.astype("<u4").tobytes()).decode("ascii"), position, has_gauss, gauss]


def restore_generator(generator: Any, state: list[Any]) -> None:
    """
    Set a generator to the state that `save_generator` returned.

    Raises:
        ValueError: the state is not valid.
    """
    import numpy as np

    try:
        key, position, has_gauss, gauss = state
        numbers = np.frombuffer(base64.b64decode(key, validate=True), dtype="<u4")
        generator.set_state(("MT19937", numbers, int(position), int(has_gauss), float(gauss)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"The saved state of a random generator is not valid: {error}.") from error


def provide_generators(provide: Callable[[], np.random.RandomState] | None) -> None:
    """
    Let `get_rng` return the generators of a function from now on, in this process. A worker process may call it.

    Args:
        provide: returns a generator; None creates generators again.
    """
    _stream.provide = provide


def fix_rng_seed(seed: int) -> None:
    """
    Make the following streams of `get_rng` reproducible.

    Args:
        seed: any integer.

    Example:
        >>> fix_rng_seed(42)                # at the beginning of the main script

    Note:
        TensorFlow and `np.random` have separate seeds: `tf.set_random_seed`, `np.random.seed`. A training
        that resumes from a checkpoint does not repeat the streams of its first epoch; see `advance_rng_seed`.
    """
    _stream.enter((int(seed),))


def get_rng_seed() -> int | None:
    """Return the seed that `fix_rng_seed` set in this process; None if there is none."""
    return None if _stream.key is None else _stream.key[0]


def advance_rng_seed(step: int) -> None:
    """
    Continue with streams that differ from those of step 0. Trainers call this function when they resume.

    The same seed and step give the same streams in every run. Without a fixed seed, nothing changes.

    Args:
        step: the `global_step` at which training continues; 0 changes nothing.
    """
    if step > 0:
        mark = f"step {int(step)}"
        _stream.marks = (*_stream.marks, mark)
        if _stream.key is not None:
            _stream.enter((*_stream.key, mark))


@contextmanager
def shared_stream(seed: int) -> Iterator[None]:
    """
    Let the streams that are created in the block depend only on a seed, and on the step at which training was resumed.

    Processes that have other streams, or have created other numbers of them, get the same streams.

    Args:
        seed: any integer.
    """
    saved = _stream.key, _stream.pid, _stream.numbers
    _stream.enter((("shared", int(seed)), *_stream.marks))
    try:
        yield
    finally:
        _stream.key, _stream.pid, _stream.numbers = saved


def reset_rng_seed() -> None:
    """Forget a fixed seed: the following streams start from fresh entropy."""
    _stream.enter(None)


class WorkerStream(NamedTuple):
    """
    Random streams of one worker process; can be pickled.

    Attributes:
        key: the seed and the path from the main process to the worker; None if no seed is fixed.
    """

    key: Union[Tuple[Any, ...], None]


def make_worker_streams(num: int) -> list[WorkerStream]:
    """
    Divide random streams among worker processes. The process that starts the workers calls it once per group.

    Args:
        num: the number of workers.

    Returns:
        A stream for each worker, which passes it to `enter_worker_stream`. The streams differ from each
        other, from those of every other group, and from those of the calling process.

    Example:
        >>> streams = make_worker_streams(2)
        >>> procs = [Worker(dataflow, stream) for stream in streams]  # doctest: +SKIP
    """
    group = _stream.next_key()
    return [WorkerStream(None if group is None else group + (index,)) for index in range(num)]


def enter_worker_stream(stream: WorkerStream) -> None:
    """
    Use a worker's random streams in this process from now on. A worker calls it first.

    Args:
        stream: one of the streams that `make_worker_streams` returned.
    """
    _stream.enter(stream.key)
    _collections.lists.clear()  # those of the process that forked this one


class _RandomStream:
    """The ambient state of this module: the random streams that come next in this process."""

    provide: Callable[[], np.random.RandomState] | None = None

    def __init__(self) -> None:
        self.marks: tuple[str, ...] = ()  # of `advance_rng_seed`
        self.enter(None)

    def enter(self, key: tuple[Any, ...] | None) -> None:
        self.key, self.pid = key, os.getpid()
        self.numbers = itertools.count()  # atomic, unlike += 1; and unlike a lock, it survives a fork

    def next_key(self) -> tuple[Any, ...] | None:
        """Return a key that was never returned before, or None if no seed is fixed."""
        if self.key is None:
            return None
        if self.pid != os.getpid():  # a fork that entered no worker stream
            self.enter(self.key + (multiprocessing.current_process().name,))
        return self.key + (next(self.numbers),)


class _Collections(threading.local):
    """The open blocks of `collect_generators`, one stack per thread."""

    def __init__(self) -> None:
        self.lists: List[List[Any]] = []


_stream = _RandomStream()
_collections = _Collections()
