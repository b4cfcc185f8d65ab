"""The methods by which a DataFlow saves and restores its position."""

from __future__ import annotations

import copy
from typing import Any, Iterator, Sequence

from ..meter import Meter
from .recording import Recording, ResumeReport, State

__all__ = ["Resumable", "find_difference"]


class Resumable:
    """
    The methods of a DataFlow that save and restore its position.

    Attributes:
        state_attributes: the names of attributes that `__iter__` changes and that must continue, e.g. a
            counter. Their values must be JSON values or NumPy arrays. Random generators that `get_rng`
            returns inside `reset_state` need not be named.
    """

    state_attributes: Sequence[str] = ()
    _recording: Recording | None = None
    _meter: Meter | None = None  # after `reset_state`
    _state_to_restore: Sequence[Any] = ()  # the argument of `set_state`, until `reset_state`
    _draws_order = False  # whether `_iterate_from` draws random numbers for the whole pass before it returns

    def get_state(self) -> State:
        """
        Return the position: what the stages of this pipeline need to continue after the last datapoint.

        Call it from the thread that iterates, between two datapoints, after `set_state` and `reset_state`.

        Returns:
            JSON values and NumPy arrays. Do not modify them.

        Raises:
            RuntimeError: `set_state` was not called before `reset_state`; or two passes are open at once.
        """
        return self._require_recording("get_state").position()

    def set_state(self, state: State | None) -> None:
        """
        Record positions from the next `reset_state` on, and continue at a saved one. Call it before `reset_state`.

        The next pass then yields what came after the saved position; later passes are whole.

        Args:
            state: what `get_state` returned, in this process or another one. None begins anew.
        """
        self._state_to_restore = (state,)

    def resume_report(self) -> list[ResumeReport]:
        """
        Describe how each stage is resumed. Call it after `set_state` and `reset_state`.

        Returns:
            For each stage its class, a level, and a reason. See `ResumeReport`.

        Raises:
            RuntimeError: `set_state` was not called before `reset_state`.
        """
        return self._require_recording("resume_report").report()

    def _require_recording(self, method: str) -> Recording:
        if self._recording is None:
            raise RuntimeError(
                f"{type(self).__name__}.{method}: the position is not recorded. Call set_state(None) before reset_state()."
            )
        return self._recording

    def _take_state_to_restore(self) -> State | None:
        """Return the argument of `set_state`, and forget it."""
        state: State | None = next(iter(self._state_to_restore), None)
        self._state_to_restore = ()
        return state

    # Methods that stages override -----------------------------------------------------------------------------------
    def _iterate_from(self, start: int) -> Iterator[Any]:
        """
        Return the iterator of a pass, without its first `start` datapoints. The stages that this one reads
        continue by themselves.

        A stage that defines this method has an `__iter__` that calls it with 0, e.g. that of ProxyDataFlow.
        """
        raise NotImplementedError

    def _can_seek(self) -> bool:
        """Return whether `_iterate_from` belongs to the `__iter__` of this class, which a subclass may have replaced."""
        for base in type(self).__mro__:
            if "_iterate_from" in base.__dict__ or "__iter__" in base.__dict__:
                return "_iterate_from" in base.__dict__ and base is not Resumable
        return False

    def _own_state(self) -> State:
        """Return what must be kept beside generators and the stages that this one reads."""
        # copies, because `__iter__` may change the values in place
        return {name: copy.deepcopy(getattr(self, name)) for name in self.state_attributes}

    def _restore_own_state(self, state: State) -> None:
        for name in self.state_attributes:
            setattr(self, name, copy.deepcopy(state[name]))

    def _states_of(self, children: Sequence[Recording]) -> list[State]:
        """Return the states of the stages that this one reads."""
        return [child.state() for child in children]

    def _reports_of(self, children: Sequence[Recording]) -> list[ResumeReport]:
        """Return the reports of the stages that this one reads."""
        return [report for child in children for report in child.report()]

    def _leave(self, children: Sequence[Recording]) -> None:
        """Leave the passes of other stages that the open pass of this one has begun."""
        for child in children:
            child.leave()

    def _stages_read(self) -> Sequence[object]:
        """Return the stages that this one reads in this process."""
        return ()

    def _resume_level(self) -> tuple[str, str]:
        """Return the level and the reason of this stage's `ResumeReport`."""
        if self._can_seek() or self._has_own_methods():
            return "state", ""
        return "replay", "up to one pass of it is made again"

    def _has_own_methods(self) -> bool:
        """Return whether a user's class saves its position by itself."""
        return type(self).get_state is not Resumable.get_state


def find_difference(flow: object, state: State) -> str | None:
    """
    Compare a pipeline that was not reset with a saved state, as far as its stages are known before.

    Returns:
        The first difference, e.g. "it has MapData where the saved one has BatchData"; None if there is none.
    """
    name, saved_name = type(flow).__name__, state.get("stage")
    if name != saved_name:
        return f"it has {name} where the saved one has {saved_name}"
    stages: Sequence[object] = flow._stages_read() if isinstance(flow, Resumable) else ()
    saved = state.get("at", {}).get("children", [])
    if len(stages) != len(saved):
        return None  # a stage that reads others in worker processes
    return next((found for found in map(find_difference, stages, saved) if found), None)
