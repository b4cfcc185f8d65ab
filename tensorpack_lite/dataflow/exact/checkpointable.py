"""The methods by which a DataFlow saves and restores its position."""

from __future__ import annotations

import copy
from typing import Any, Iterator, Sequence

from .stage_position import ResumeReport, StagePosition, State


class Checkpointable:
    """
    The methods of a DataFlow that save and restore its position.

    Attributes:
        state_attributes: the names of attributes that `__iter__` changes and that must continue, e.g. a
            counter. Their values must be JSON values or NumPy arrays. Random generators that `get_rng`
            returns inside `reset_state` need not be named.
    """

    state_attributes: Sequence[str] = ()
    _stage_position: StagePosition | None = None
    _state_to_restore: Sequence[Any] = ()  # the argument of `set_state`, until `reset_state`
    _numbered: Any = (
        None  # after `reset_state`: a NumberedSource, if the position of a stage that holds datapoints back is recorded
    )
    _draws_order = False  # whether `__iter__` draws random numbers for the whole pass before it returns

    def get_state(self) -> State:
        """
        Return the position: what the stages of this pipeline need to continue after the last datapoint.

        Call it from the thread that iterates, between two datapoints, after `set_state` and `reset_state`.

        Returns:
            JSON values and NumPy arrays. Do not modify them.

        Raises:
            RuntimeError: `set_state` was not called before `reset_state`; or two passes are open at once.
        """
        return self._require_position("get_state").position()

    def set_state(self, state: State | None) -> None:
        """
        Record positions from the next `reset_state` on, and continue at a saved one. Call it before `reset_state`.

        The next pass then yields what came after the saved position; later passes are whole.

        Args:
            state: what `get_state` returned, in this process or another one; None to start from the beginning.
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
        return self._require_position("resume_report").report()

    def _require_position(self, method: str) -> StagePosition:
        if self._stage_position is None:
            raise RuntimeError(
                f"{type(self).__name__}.{method}: the position is not recorded. Call set_state(None) before reset_state()."
            )
        return self._stage_position

    def _take_state_to_restore(self) -> State | None:
        """Return the argument of `set_state`, and forget it."""
        state: State | None = next(iter(self._state_to_restore), None)
        self._state_to_restore = ()
        return state

    def _record(self, above: Any) -> StagePosition | None:
        """Return the position of this stage, which `above` resets, if its position is recorded."""
        parent: StagePosition | None = None if above is None else above._stage_position
        if self._state_to_restore:
            self._stage_position = StagePosition(self, self._take_state_to_restore())
            if parent is not None:  # below a stage that restores it by itself
                parent.children.append(self._stage_position)
        else:
            self._stage_position = None if parent is None else parent.add_child(self)
        return self._stage_position

    # Methods that stages override -----------------------------------------------------------------------------------
    def iter_from(self, num_done: int) -> Iterator[Any]:
        """
        Continue a pass after the datapoints that were already yielded.

        A class that defines this method beside `__iter__` can resume at any datapoint. Without this method, the pass is
        replayed. The stages that this stage reads restore their own positions, so do not skip their datapoints here. Do
        not draw random numbers that apply to the whole pass: in a resumed pass, the generators have their state at the
        next datapoint, not at the start of the pass.

        Args:
            num_done: number of datapoints that were already yielded; >= 1.

        Yields:
            The remaining datapoints of the pass.

        Raises:
            NotImplementedError: the class does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__}: a pass can only begin at its first datapoint.")

    def _can_seek(self) -> bool:
        """
        Return whether a pass can begin at any datapoint.

        A stage that reads another one twice cannot: that one has two open passes and no single position.
        """
        if self._stage_position is None or not self._stage_position.has_iter_from:
            return False
        stages = self._stages_read()
        return len({id(stage) for stage in stages}) == len(stages)

    def _own_state(self) -> State:
        """Return what must be kept beside generators and the stages that this one reads."""
        # copies, because `__iter__` may change the values in place
        return {name: copy.deepcopy(getattr(self, name)) for name in self.state_attributes}

    def _restore_own_state(self, state: State) -> None:
        for name in self.state_attributes:
            setattr(self, name, copy.deepcopy(state[name]))

    def _states_read(self) -> list[State]:
        """Return the states of the stages that this one reads."""
        return (
            [child.state() for child in self._children()] if self._numbered is None else [self._numbered.source_state()]
        )

    def _reports_read(self) -> list[ResumeReport]:
        """Return the reports of the stages that this one reads."""
        return [report for child in self._children() for report in child.report()]

    def _leave(self) -> None:
        """Leave the passes of other stages that the open pass of this one has begun."""
        for child in self._children():
            child.leave()

    def _children(self) -> Sequence[StagePosition]:
        return () if self._stage_position is None else self._stage_position.children

    def _stages_read(self) -> Sequence[object]:
        """Return the stages that this one reads in this process."""
        return ()

    def _resume_level(self) -> tuple[str, str]:
        """Return the level and the reason of this stage's `ResumeReport`."""
        if self._can_seek() or self._has_own_methods():
            return "state", ""
        return "replay", "up to one pass of it is replayed"

    def _has_own_methods(self) -> bool:
        """Return whether a user's class saves its position by itself."""
        return type(self).get_state is not Checkpointable.get_state


def find_difference(flow: object, state: State) -> str | None:
    """
    Compare a pipeline that was not reset with a saved state, as far as its stages are known before.

    Returns:
        The first difference, e.g. "it has MapData where the saved one has BatchData"; None if there is none.
    """
    name, saved_name = type(flow).__name__, state.get("stage")
    if name != saved_name:
        return f"it has {name} where the saved one has {saved_name}"
    stages: Sequence[object] = flow._stages_read() if isinstance(flow, Checkpointable) else ()
    saved = state.get("at", {}).get("children", [])
    if len(stages) != len(saved):
        return None  # a stage that reads others in worker processes
    return next((found for found in map(find_difference, stages, saved) if found), None)
