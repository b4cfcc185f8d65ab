"""
The position of a DataFlow: what a checkpoint keeps of it, and how a resumed training continues there.

A `StagePosition` belongs to one stage of a pipeline. It knows the random generators that the stage's `reset_state` created,
the stages that it reset, and how many datapoints the open pass has yielded. It observes all stages, the user's included,
if `set_state` was called; otherwise there is none, and iteration costs nothing.

There are two ways to continue in the middle of a pass:

- A stage that defines `iter_from`, which takes the number of datapoints that were already yielded, continues there. The
  states of the stages that it reads are those of now.
- Any other stage is *replayed*: its generators, attributes and the stages that it reads return to the
  beginning of the pass, and the datapoints that were already yielded are replayed and discarded.
"""

from __future__ import annotations

import copy
import itertools
import weakref
from contextlib import contextmanager
from typing import Any, Dict, Iterator, NamedTuple

import numpy as np

from ...utils import logger
from ...utils.random_streams import collect_generators, restore_generator, save_generator
from ..checksum import add_to_checksum
from ..observing import Begin, Observer, unobserved_pass

State = Dict[str, Any]  # JSON values and NumPy arrays


class ResumeReport(NamedTuple):
    """
    Report on how one stage of a pipeline is resumed.

    Attributes:
        stage: the class of the stage.
        level: "state": it continues at its position. "replay": up to one of its passes is replayed. "none":
            not exactly.
        reason: a sentence; empty for "state".
    """

    stage: str
    level: str
    reason: str


class StagePosition(Observer):
    """
    The generators and the position of one stage, from its `reset_state` on.

    Args:
        flow: the stage.
        state: what `state()` returned for it earlier; None to start from the beginning.
        where: the stages above it, for error messages.

    Attributes:
        children: the positions of the stages that its `reset_state` reset, in order.
        has_iter_from: whether its class defines how a pass continues.
        is_different: whether the datapoints that were replayed differ from the saved ones.
    """

    def __init__(self, flow: Any, state: State | None, where: str = "") -> None:
        # weak, so that workers stop as soon as their stage is deleted
        self._flow = weakref.ref(flow)
        self.has_iter_from = _has_iter_from(type(flow))
        self.where = f"{where}{type(flow).__name__}"
        self.children: list[StagePosition] = []
        self._generators: list[np.random.RandomState] = []
        self._restored = state  # until the first datapoint
        self._num_open = 0
        self._num_taken = 0  # of the open pass
        self._checksum = 0  # of the datapoints of the open pass, if it is replayed
        self.is_different = False
        # of the beginning of the pass: its generators, or all of `_now()` if it is replayed
        self._begin: Any = None
        if state is not None:
            self._check(state)

    @property
    def flow(self) -> Any:
        """The stage."""
        flow = self._flow()
        assert flow is not None, "bug: the stage was deleted, but its position is used"
        return flow

    # The state -------------------------------------------------------------------------------------------------------
    def state(self) -> State:
        """Return what a parent keeps of this stage: its position, or what its own `get_state` returns."""
        if self.flow._has_own_methods():
            return {"stage": type(self.flow).__name__, "custom": copy.deepcopy(self.flow.get_state())}
        return self.position()

    def position(self) -> State:
        """
        Return the position, between two datapoints.

        Raises:
            RuntimeError: two passes are open at once.
        """
        if self._restored is not None:
            return self._restored
        if self._num_open > 1:
            raise RuntimeError(
                f"{self.where}: two passes are open at once, so there is no single position. Build a DataFlow for each."
            )
        state = {"stage": type(self.flow).__name__, "taken": self._num_taken if self._num_open else None}
        if self._num_open and not self.flow._can_seek():
            return {**state, "at": self._begin, "checksum": self._checksum}
        if self._num_open and self._begin is not None:
            state["begin"] = self._begin
        return {**state, "at": self._now()}

    def _now(self) -> State:
        return {
            "generators": self._saved_generators(),
            "own": self.flow._own_state(),
            "children": self.flow._states_read(),
        }

    def report(self) -> list[ResumeReport]:
        """Return how this stage and those that it reads are resumed."""
        flow = self.flow
        level, reason = flow._resume_level()
        known = [child.flow for child in self.children]
        unknown = [ds for ds in flow._stages_read() if all(ds is not stage for stage in known)]
        if level != "none" and unknown:
            level = "none"
            reason = f"its reset_state() did not reset {type(unknown[0]).__name__}, or that is not a DataFlow"
        return [ResumeReport(type(flow).__name__, level, reason), *flow._reports_read()]

    def _check(self, state: State) -> None:
        if not isinstance(state, dict) or state.get("stage") != type(self.flow).__name__:
            found = state.get("stage") if isinstance(state, dict) else state
            raise ValueError(
                f"{self.where}: the saved position belongs to another DataFlow (expected one of {type(self.flow).__name__}, "
                f"got {found!r}). The pipeline must be the one that was saved."
            )

    # Called by the methods of the stage -----------------------------------------------------------------------------
    def own_state_to_restore(self) -> State | None:
        """Return what `_own_state` returned for the position that is being restored, if any."""
        return None if self._restored is None else self._restored["at"]["own"]

    @contextmanager
    def resetting(self) -> Iterator[None]:
        """Collect the generators that the stage's own `reset_state` creates, and then return to the saved position."""
        with collect_generators() as self._generators:
            yield
        self._restore()

    def _restore(self) -> None:
        if self._restored is None:
            return
        at = self._restored["at"]
        num_saved = len(at["children"]), len(at["generators"])
        if num_saved != (len(self.children), len(self._generators)):
            raise ValueError(
                f"{self.where}: the saved position belongs to another DataFlow (expected {len(self.children)} stages and "
                f"{len(self._generators)} random generators below it, got {num_saved[0]} and {num_saved[1]}). The pipeline "
                "must be the one that was saved."
            )
        self.flow._restore_own_state(at["own"])
        self._set_generators(at["generators"])

    def add_child(self, flow: Any) -> StagePosition:
        """Return a new position for a stage that is being reset, with the state that was saved for it."""
        states = [] if self._restored is None else self._restored["at"]["children"]
        number = len(self.children)
        state = states[number] if number < len(states) else None
        if state is not None and flow._has_own_methods():
            flow.set_state(state.get("custom"))
            state = flow._take_state_to_restore()
        self.children.append(StagePosition(flow, state, f"{self.where} > "))
        return self.children[-1]

    def one_pass(self, begin: Begin) -> Iterator[Any]:
        """Count the datapoints of a pass. The first pass after a restore continues the one that was open."""
        datapoints = self._one_pass(begin)
        next(datapoints)
        return datapoints

    def _one_pass(self, begin: Begin) -> Iterator[Any]:
        is_begun = False
        flow = self.flow  # keeps the stage alive as long as this pass
        try:
            yield None  # from here on, dropping the generator leaves the restored pass
            self._num_open += 1
            is_begun = True
            source = self._restore_progress(begin)
            is_replayed = not flow._can_seek()
            for datapoint in source:
                self._restored = None
                self._num_taken += 1
                if is_replayed:
                    self._checksum = add_to_checksum(self._checksum, datapoint)
                yield datapoint
        except GeneratorExit:
            self.leave()
            raise
        finally:
            self._num_open -= is_begun
            self._restored = None
            del flow

    def find_different(self) -> StagePosition | None:
        """Return the position of a stage whose replayed datapoints differ from the saved ones."""
        found = (child.find_different() for child in self.children)
        return self if self.is_different else next(filter(None, found), None)

    def leave(self) -> None:
        """Leave the restored pass, if it has not been continued."""
        flow = self._flow()
        if flow is None or self._restored is None or self._restored["taken"] is None:
            return  # or the whole pipeline was deleted
        if flow._can_seek():
            flow._leave()
        else:  # the datapoints of the pass have changed the stage, so they are replayed
            self._restore_progress(unobserved_pass(flow))
        self._restored = None

    def _restore_progress(self, begin: Begin) -> Iterator[Any]:
        self._num_taken = (self._restored or {}).get("taken") or 0
        if self.flow._can_seek():
            return self._seek(begin, self._num_taken, (self._restored or {}).get("begin"))
        # with two open passes, only a stage above has a position
        self._begin = self._now() if self._num_open <= 1 else None
        expected = (self._restored or {}).get("checksum")
        source = iter(begin())
        self._drop(source, self._num_taken)
        if self._num_taken > 0 and expected is None:
            logger.warning(
                f"{self.where}: an earlier version saved the position, so it is not known whether the {self._num_taken} datapoints that "
                "are replayed are those from before. If the class resumed by an argument `start` of `__iter__`, define iter_from."
            )
        self.is_different = expected not in (None, self._checksum)
        return source

    def _seek(self, begin: Begin, num_done: int, generators: list[Any] | None) -> Iterator[Any]:
        """Continue after some datapoints. What the stage draws at the beginning of a pass is drawn from `generators`."""
        if not self.flow._draws_order:
            return self._pass_from(begin, num_done)
        now = self._saved_generators()
        self._begin = now if generators is None else generators
        self._set_generators(self._begin)
        source = self._pass_from(begin, num_done)
        if generators is not None:
            self._set_generators(now)
        return source

    def _pass_from(self, begin: Begin, num_done: int) -> Iterator[Any]:
        return iter(self.flow.iter_from(num_done) if num_done else begin())

    def _drop(self, source: Iterator[Any], num: int) -> None:
        self._checksum = num_dropped = 0
        for datapoint in itertools.islice(source, num):
            self._checksum = add_to_checksum(self._checksum, datapoint)
            num_dropped += 1
        if num_dropped < num:
            raise RuntimeError(
                f"{self.where}: the saved position is after {num} datapoints of a pass, but this pass has only {num_dropped}. "
                "The data has changed."
            )

    def _saved_generators(self) -> list[Any]:
        return [save_generator(generator) for generator in self._generators]

    def _set_generators(self, states: list[Any]) -> None:
        for generator, state in zip(self._generators, states):
            restore_generator(generator, state)


def _has_iter_from(cls: type) -> bool:
    """Return whether `iter_from` continues what `__iter__` begins: it must not belong to a base class of that which defines `__iter__`."""
    begins, continues = (
        next(base for base in cls.__mro__ if name in base.__dict__) for name in ("__iter__", "iter_from")
    )
    return issubclass(continues, begins)
