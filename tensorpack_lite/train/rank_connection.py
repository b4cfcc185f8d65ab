"""
The trainer's side of the ranks' channel, independent of the engine that reduces the gradients.

`RankConnection` reports the status of this rank over its `RankChannel`, compares the ranks before the first step,
and turns the failure of another rank into an error on this one.
"""

from __future__ import annotations

import hashlib
import socket
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, Mapping, Sequence

from .._version import __version__
from ..callbacks.monitor.base import MonitorBase
from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..ranks.alone import Alone
from ..ranks.authentication import Credentials
from ..ranks.channel import RankChannel
from ..ranks.connecting import RankError
from ..ranks.loopback import is_loopback
from ..tfutils.checkpoint_reader import reason_of
from ..tfutils.graph_description import describe_operations
from ..utils import logger
from ..utils.script_end import Show, at_error
from .trainer import Trainer

_LOST_CONNECTIONS = ("Connection reset", "Socket closed", "failed to connect", "Connection closed")
# Engine errors with one of these texts are probably the effect of another rank's failure.
_ECHOES = (
    "Collective ops is aborted",
    *_LOST_CONNECTIONS,
    "Horovod has been shut down",
    "HorovodInternalError",
)
_MAX_CHARACTERS = 1000  # of an error that the other ranks are told
_EQUAL = "equal"
_ECHO_SECONDS = 5.0  # time for the failure behind such an error to arrive


class RankConnection(Alone):
    """
    Connection of a trainer to the other ranks; a trainer that trains alone has none.

    Args:
        rank: number of this process.
        size: number of processes.
        address: host and port of the channel, on the chief's machine.
        time_limit: seconds; see `RankChannel`.
        credentials: the conditions for a peer to join; see `RankChannel`.
        other_ports: more ports of the channel; see `RankChannel`.

    Attributes:
        channel: the `RankChannel`.

    Raises:
        RankError: the ranks did not connect.
        OSError, ValueError: the secret cannot be read, or is too short.
    """

    channel: RankChannel

    def __init__(
        self,
        rank: int,
        size: int,
        address: tuple[str, int],
        time_limit: float,
        credentials: Credentials | None = None,
        other_ports: Sequence[int] = (),
    ) -> None:
        self.rank, self.size = rank, size
        self._has_data = True
        self._place = "building the graph"
        self._waits_in: str | None = None
        self._trainer: Trainer | None = None
        self._machine = {} if is_loopback(address[0]) else {"host": socket.gethostname()}
        self._stop_reporting: Callable[[], None] | None = None
        self.channel = RankChannel(
            rank, size, address, time_limit, self._where, credentials=credentials, other_ports=other_ports
        )

    @contextmanager
    def reporting(self, trainer: Trainer, place: str) -> Iterator[None]:  # type: ignore[override]
        """
        Context that reports an error inside it to the other ranks.

        Args:
            trainer: the trainer, which knows the step and the callback of this rank.
            place: a description of the work inside, e.g. "building the graph".
        """
        self._trainer, self._place = trainer, place
        try:
            yield
        except BaseException as error:  # Ctrl-C too: the other ranks learn about any end
            self._report(error, place)
            raise

    def report_end_of_script(self) -> None:
        """Until this rank leaves, report an error that ends the script outside its trainer to the other ranks."""
        self._stop_reporting = at_error(self._show_and_report)

    def _show_and_report(
        self, show: Show, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        try:
            show(kind, error, traceback)
        finally:
            self._report(error, "in its script")

    @contextmanager
    def waiting(self, place: str) -> Iterator[None]:
        """
        Context in which this rank waits for the other ranks outside a step.

        Args:
            place: a description of the wait.
        """
        self._waits_in = place
        try:
            yield
        finally:
            self._waits_in = None

    def end_data(self) -> None:
        """Tell that the data of this rank has ended. The other ranks may wait for it in a step until their own data ends."""
        self._has_data = False

    def explain(self, error: BaseException) -> None:
        """
        Raise the failure of another rank if it is the cause of an error of this rank's engine; else return.

        Raises:
            RankError: another rank failed, or the engine has lost its connection to another rank.
        """
        is_echo = any(echo in str(error) for echo in _ECHOES)
        failure = self.channel.wait_for_failure(_ECHO_SECONDS if is_echo else 0.0)
        if failure is not None:
            self.channel.end_by_itself()
            raise RankError(failure) from error
        # The network may be down. The channel notices that after the time limit only.
        if isinstance(error, tf.errors.UnavailableError) and any(text in str(error) for text in _LOST_CONNECTIONS):
            raise RankError(f"Rank {self.rank} lost its connection to another rank: {reason_of(error)}") from error

    def compare(self, values: Mapping[str, object]) -> None:
        """
        Compare values that must be equal on all ranks, and created in the same order.

        Args:
            values: name -> value on this rank.

        Raises:
            RankError: on every rank; names the first difference.
        """
        mine = [(name, str(value)) for name, value in values.items()]
        digest = hashlib.sha256(repr(mine).encode("utf-8")).hexdigest()
        digests = self.channel.gather("comparing the ranks", digest)
        told = self.channel.scatter(
            "the result of the comparison",
            None if digests is None else _tell_first_that_differs(digests, mine),
        )
        if told == _EQUAL:
            return
        found = None if told is None else _first_difference(told, mine)
        found = found and f"Rank {self.rank} does not match rank 0: {found}. All ranks must run the same script."
        failure = next(filter(None, self.channel.all_gather("the first difference", found)), "The ranks differ.")
        self.channel.fail(failure)
        raise RankError(failure)

    def finish(self, step: int) -> None:
        """
        Wait until all ranks have ended their loops, and leave the channel. Log a warning if their steps differ.

        Args:
            step: number of steps that this rank has done.
        """
        steps = self.channel.all_gather("the end of training", step)
        if len(set(steps)) > 1:
            listed = ", ".join(f"{number} on rank {rank}" for rank, number in enumerate(steps))
            logger.warning(f"The ranks trained for different numbers of steps: {listed}.")
        self._leave()

    def _report(self, error: BaseException, place: str) -> None:
        """Report an error to the other ranks, unless it came from them or this rank has left, and leave."""
        if self.channel.failure is None and not self.channel.is_closed:
            failure = str(error)
            if not isinstance(error, RankError):
                lines = [line for line in failure.splitlines() if line.strip()] or [""]
                reason = reason_of(error) if isinstance(error, tf.errors.OpError) else lines[0]
                failure = f"Rank {self.rank} failed after step {self._step}, {place}: {type(error).__name__}: {reason[:_MAX_CHARACTERS]}"
            self.channel.fail(failure)
        self._leave()

    def _leave(self) -> None:
        """Leave the channel, and drop the references that keep the trainer and its graph alive."""
        self.channel.close()
        self._trainer = None
        if self._stop_reporting is not None:
            self._stop_reporting()

    # Status, which a thread of the channel reads several times a second ----------------------------------------------
    @property
    def _step(self) -> int:
        trainer = self._trainer
        return 0 if trainer is None else trainer.global_step

    def _where(self) -> Dict[str, Any]:
        trainer, kind, is_excused = self._trainer, "busy", False
        call = None if trainer is None else trainer.current_call
        if self._waits_in is not None:
            kind, place = "variables", self._waits_in
        elif call is not None:
            callback, place = call.callback, f"in callback {call.callback}, {call.moment}"
            is_excused = callback.works_alone or callback.chief_only or isinstance(callback, MonitorBase)
        elif trainer is not None and trainer.is_in_run:
            kind, place = "step", f"in step {self._step + 1}"
        else:
            place = self._place
            is_excused = place in ("setting up callbacks", "initializing the session")
        if is_excused and self.rank == 0:
            kind = "excused"
        return {"kind": kind, "step": self._step, "where": place, "has_data": self._has_data, **self._machine}


class RankCallback(Callback):
    """
    Callback of the trainer on every rank: broadcasts the chief's variables, and checks before each run that
    no rank failed.

    Args:
        ranks: the `RankConnection` of this rank.
        broadcast: gives all ranks the chief's variables; called before training, and after each epoch if
            `every_epoch()`.
        every_epoch: returns whether to broadcast after an epoch.

    It does nothing in `trigger_step` and `trigger_epoch`, so a checkpoint of one rank, which does not have it, can be resumed
    by several, with all calls that were due.

    Runs at: before_train, before each run, each epoch.
    """

    _chief_only = False

    def __init__(self, ranks: RankConnection, broadcast: Callable[[], None], every_epoch: Callable[[], bool]) -> None:
        self._ranks, self._broadcast, self._every_epoch = ranks, broadcast, every_epoch

    def _before_train(self) -> None:
        self._broadcast()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> None:
        self._ranks.channel.check()

    def _after_epoch(self) -> None:
        if self._every_epoch():
            self._broadcast()


def graph_of_training() -> Dict[str, Any]:
    """
    Return a description of the training graph, to compare between ranks. Call it before callbacks add to the graph.

    It contains neither the values of constants nor attributes such as seeds, in which ranks may differ.
    """
    operations = describe_operations(tf.get_default_graph().get_operations())
    return {
        "version of tensorpack_lite": __version__,
        "version of TensorFlow": tensorflow.__version__,
        **{f"variable {v.op.name}": [v.dtype.base_dtype.name, str(v.shape)] for v in tf.global_variables()},
        **{f"operation {name}": text for name, text in operations.items()},
    }


def _tell_first_that_differs(digests: Sequence[str], description: object) -> list[object]:
    """
    Return what the chief tells each rank after a comparison.

    A description may have megabytes, and one difference is enough, so only one rank gets it.
    """
    differ = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    return [(description if rank == differ[0] else None) if differ else _EQUAL for rank in range(len(digests))]


def _first_difference(first: Sequence[tuple[str, object]], second: Sequence[tuple[str, object]]) -> str | None:
    """Describe the first difference: a missing name, another value, or another order."""
    here, there = dict(first), dict(second)
    for name, value in [*here.items(), *there.items()]:
        if name not in there:
            return f"it lacks {name} ({value})"
        if name not in here:
            return f"rank 0 lacks {name} ({value})"
        if there[name] != here[name]:
            return f"its {name} is {there[name]}, and {value} on rank 0"
    for mine, theirs in zip(here, there):
        if mine != theirs:
            return f"it created {theirs} where rank 0 created {mine}, so the order differs"
    return None
