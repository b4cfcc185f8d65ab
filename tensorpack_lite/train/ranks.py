"""
What keeps the ranks of a training together, whatever engine moves their gradients.

A `RankChannel` joins the processes. `RankWatch` puts it to use in a trainer: it knows where this rank is, compares the ranks before
the first step, and turns what another rank did into an error here.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from typing import Any, Callable, Dict, Sequence

from .._version import __version__
from ..callbacks.monitor.base import MonitorBase
from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..utils import logger
from ..utils.frames import frame_of_thread
from ..utils.rank_auth import Credentials
from ..utils.ranks import RankChannel, RankError

__all__ = ["RankCallback", "RankWatch", "graph_of_training"]

_MOMENTS = {
    "_before_train", "_before_epoch", "_before_run", "_after_run", "_trigger_step", "trigger_step", "_after_epoch",
    "_trigger_epoch", "_trigger", "_after_train",
}  # fmt: skip
_ECHOES = (
    "Collective ops is aborted",
    "Connection reset",
    "Socket closed",
    "failed to connect",
    "Connection closed",
    "Horovod has been shut down",
    "HorovodInternalError",
)


class RankWatch:
    """
    One rank of a training and its channel to the others; a trainer has one, None when it is alone.

    Args:
        rank: the number of this process.
        size: how many processes there are.
        address: host and port of the channel, on the chief's machine.
        time_limit: seconds; see `RankChannel`.
        credentials: what lets a peer in; see `RankChannel`.

    Attributes:
        channel: the `RankChannel`.

    Raises:
        RankError: the ranks did not come together.
        OSError, ValueError: the secret cannot be read, or is too short.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        address: tuple[str, int],
        time_limit: float,
        credentials: Credentials | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self._place = "building the graph"
        self._waits_in: str | None = None
        self._trainer: Any = None
        self._has_data = True
        self._hooks: tuple[Any, Any] | None = None
        self._main_thread = threading.get_ident()
        self.channel = RankChannel(
            rank, size, address, time_limit, where=self._where, credentials=credentials
        )

    def reporting(self, trainer: Any, place: str) -> _Reporting:
        """
        A context: an error inside it is told to the other ranks.

        Args:
            trainer: whose step counter tells where this rank is.
            place: what happens inside, in words.
        """
        self._trainer = trainer
        return _Reporting(self, place)

    def report_end_of_script(self) -> None:
        """From now until this rank leaves, tell the others of an error that ends the script beside its trainer."""
        show = sys.excepthook

        def show_and_tell(kind: Any, error: Any, traceback: Any) -> None:
            show(kind, error, traceback)
            if not self.channel.is_closed:
                self._tell(error, "in its script")

        self._hooks = (show_and_tell, show)
        sys.excepthook = show_and_tell

    def note_end_of_data(self) -> None:
        """This rank's data is over. Others may find that out later, in a step that never ends, and that is well."""
        self._has_data = False

    def waiting(self, place: str, function: Callable[[], None]) -> None:
        """
        Call a function that waits for the other ranks, outside a step.

        Args:
            place: what it does, in words.
            function: without arguments.
        """
        self._waits_in = place
        try:
            function()
        finally:
            self._waits_in = None

    def explain(self, error: BaseException) -> None:
        """
        Raise what another rank did, if it is behind an error of this rank's engine; else return.

        Raises:
            RankError: another rank is behind it.
        """
        is_echo = any(echo in str(error) for echo in _ECHOES)
        if self.channel.wait_for_failure(5.0 if is_echo else 0.0):
            self._raise_failure(error)

    def _raise_failure(self, error: BaseException) -> None:
        try:
            self.channel.check()
        except RankError as failure:
            raise failure from error

    def compare(self, about: Callable[[], Dict[str, Any]]) -> None:
        """
        Compare what must be equal on all ranks.

        Args:
            about: makes a dict of names and values, from what this rank has.

        Raises:
            RankError: says the first difference, on every rank.
        """
        mine = {name: _as_json(value) for name, value in about().items()}
        digests = self.channel.all_gather("comparing the ranks", _digest(mine))
        if len(set(digests)) == 1:
            return
        everything = self.channel.all_gather("comparing the ranks in detail", list(mine.items()))
        for rank, other in list(enumerate(everything))[1:]:
            difference = _first_difference(everything[0], other)
            if difference:
                sentence = (
                    f"Rank {rank} does not fit to rank 0: {difference}. All ranks must run the same script."
                )
                self.channel.fail(sentence)
                raise RankError(sentence)

    def finish(self, step: int, reason: str) -> None:
        """
        Wait until all ranks have ended their loops, then leave the channel; warns where they did not end alike.

        Args:
            step: how many steps this rank did.
            reason: why its loop ended.
        """
        ends = self.channel.all_gather("the end of training", [step, reason])
        if any(end != ends[0] for end in ends):
            told = "; ".join(f"rank {i}: after step {at}, {why}" for i, (at, why) in enumerate(ends))
            logger.warning(f"The ranks did not end alike: {told}.")
        self._leave()

    def _tell(self, error: BaseException, place: str) -> None:
        """Tell the other ranks of an error, unless it came from them, and leave."""
        if self.channel.failure is None:
            kind, step = type(error).__name__, self._where()["step"]
            told = f"Rank {self.rank} failed after step {step}, {place}: {kind}: {_short(error)}"
            self.channel.fail(str(error) if isinstance(error, RankError) else told)
        self._leave()

    def _leave(self) -> None:
        """Leave the channel, and let go of what would keep the trainer and its graph alive."""
        self.channel.close()
        self._trainer = None
        if self._hooks is not None and sys.excepthook is self._hooks[0]:
            sys.excepthook = self._hooks[1]

    # Where this rank is, asked several times a second by a thread of the channel -----------------------------------
    def _where(self) -> Dict[str, Any]:
        return {**self._place_now(), "has_data": self._has_data}

    def _place_now(self) -> Dict[str, Any]:
        trainer = self._trainer
        step = trainer.global_step if trainer is not None else 0
        if self._waits_in is not None:
            return {"kind": "variables", "step": step, "where": self._waits_in}
        frame: Any = frame_of_thread(self._main_thread)
        in_step = False
        callback, moment, works_alone = None, "", False
        while frame is not None:
            name = frame.f_code.co_name
            if name in _MOMENTS and "self" in frame.f_code.co_varnames[:1]:
                found = frame.f_locals.get("self")
                if isinstance(found, Callback) and not isinstance(found, Callbacks):
                    callback, moment = found, name
                    works_alone = works_alone or getattr(found, "works_alone", False)
            elif frame.f_code is HookedSession.run.__code__:
                in_step = True
            frame = frame.f_back
        if callback is not None:
            is_alone = works_alone or callback.chief_only or isinstance(callback, MonitorBase)
            is_excused = self.rank == 0 and is_alone
            where = f"in callback {callback}, {moment}"
            return {"kind": "excused" if is_excused else "busy", "step": step, "where": where}
        if in_step:
            return {"kind": "step", "step": step, "where": f"in step {step + 1}"}
        is_excused = self.rank == 0 and self._place in ("setting up callbacks", "initializing the session")
        kind = "excused" if is_excused else "busy"
        return {"kind": kind, "step": step, "where": self._place}


class RankCallback(Callback):
    """
    A trainer's own callback on every rank: gives all ranks the chief's variables, and looks each step whether all are well.

    Args:
        watch: the rank's.
        broadcast: gives every rank the chief's variables; called before training and, if asked for, after each epoch.
        every_epoch: whether it is.

    Runs at: before_train, before each run, each epoch.

    tensorpack: there a CallbackFactory that broadcasts.
    """

    _chief_only = False

    def __init__(
        self, watch: RankWatch, broadcast: Callable[[], None], every_epoch: Callable[[], bool]
    ) -> None:
        self._watch, self._broadcast, self._every_epoch = watch, broadcast, every_epoch

    def _before_train(self) -> None:
        self._broadcast()

    def _before_run(self, ctx: Any) -> None:
        if self._watch.channel.failure is not None:
            self._watch.channel.check()

    def _trigger_epoch(self) -> None:
        if self._every_epoch():
            self._broadcast()


class _Reporting:
    """Tells the other ranks of an error."""

    def __init__(self, watch: RankWatch, place: str) -> None:
        self._watch, self._place = watch, place

    def __enter__(self) -> None:
        self._watch._place = self._place

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None:
            self._watch._tell(error, self._place)


def graph_of_training() -> Dict[str, Any]:
    """
    What the graph of training is made of: to be called when it is built, before callbacks add to it.

    Not the values of constants, nor attributes such as seeds: ranks may rightly differ in them.
    """
    operations = {
        op.name: " ".join([op.type, *(tensor.name for tensor in op.inputs)])
        for op in tf.get_default_graph().get_operations()
    }
    return {
        "version of tensorpack_lite": __version__,
        "version of TensorFlow": tensorflow.__version__,
        **{
            f"variable {var.op.name}": [var.dtype.base_dtype.name, str(var.shape)]
            for var in tf.global_variables()
        },
        **{f"operation {name}": type_ for name, type_ in operations.items()},
    }


def _first_difference(first: Sequence[Any], other: Sequence[Any]) -> str | None:
    """Find what differs: a name, its value, or the order, in which gradients meet."""
    here, there = dict(first), dict(other)
    for name, value in here.items():
        if name not in there:
            return f"{name} ({value}) is only on rank 0"
        if there[name] != value:
            return f"{name} is {there[name]} there and {value} on rank 0"
    for name, value in there.items():
        if name not in here:
            return f"{name} ({value}) is only there"
    for mine, theirs in zip(here, there):
        if mine != theirs:
            return f"it made {theirs} where rank 0 made {mine}: the same, in another order"
    return None


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _digest(entries: Dict[str, str]) -> str:
    return hashlib.sha256(repr(list(entries.items())).encode("utf-8")).hexdigest()


def _short(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return lines[0][:300]
