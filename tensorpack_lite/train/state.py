"""The base class of `Trainer` that answers callbacks and other threads: its callbacks, its current call, its state."""

from __future__ import annotations

from typing import Any, TypeVar

from ..loop.callback import Call, Callback
from ..loop.group import Callbacks
from ..loop.place import Place
from ..loop.session import HookedSession
from ..loop.trainer import LoopTrainer
from ..tfutils.common import get_global_step_value
from ..utils.old_names import HasOldInterface
from .exact.rank_states import split_state
from .resume import continue_from, find_place, place_of, take_state

_T = TypeVar("_T")


class TrainerState(HasOldInterface, LoopTrainer):
    """Base class of `Trainer` that knows its callbacks, and how it resumes. `Trainer` has the loop."""

    _callbacks: Callbacks
    _checkpoint_state: dict[str, Any] | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}: expected no arguments, got {[*args, *kwargs]}. To train with a TrainConfig, call "
                f"launch_train_with_config(config, {type(self).__name__}(...)). A script that calls Trainer(config).train() "
                "imports its trainers from tensorpack_lite.trainv1."
            )

    def find_callbacks(self, kind: type[_T]) -> list[_T]:
        """
        Return all callbacks of a class, in the order in which they are called.

        Args:
            kind: a class; instances of subclasses are included.
        """
        return [cb for cb in self._callbacks.cbs if isinstance(cb, kind)]

    @property
    def callbacks(self) -> Callbacks:
        """All callbacks, as one."""
        return self._callbacks

    def end_if_preempted(self) -> None:
        """End training if a signal was received; see `LoopTrainer.end_if_preempted`."""
        self.loop.num_parts += 1
        if self._callbacks.check is not None:
            self._callbacks.check()

    @property
    def current_call(self) -> Call | None:
        """The call of a callback that is in progress; None if there is none. Any thread may read it."""
        session = self.hooked_sess
        in_run = session.current_call if isinstance(session, HookedSession) else None
        return self._callbacks.current_call or in_run

    @property
    def is_in_run(self) -> bool:
        """Whether the hooked session is running. Any thread may read it."""
        return isinstance(self.hooked_sess, HookedSession) and self.hooked_sess.is_running

    # Checkpoints -----------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Return the state that `ModelSaver` saves: the place of the training and the callbacks' states."""
        state = take_state(self.loop, self._callbacks, self._checkpoint_state)
        if state is self._checkpoint_state:  # nothing has happened since
            return state
        states = {one.state_name: one.state_dict(self) for one in self.extensions}
        return {**state, **{name: found for name, found in states.items() if found is not None}}

    def state_to_resume(self, state: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
        """Return the chief's part of the state; see `LoopTrainer.state_to_resume`."""
        parts, not_exact = split_state(state, 1)
        return parts[0], not_exact

    def step_to_resume_at(self, session_init: object) -> int:
        """Return the `global_step` at which a training with these initial values continues, the chief's on each rank; 0 from the beginning."""
        place = place_of(session_init)
        return int(self._ask_chief("the step to resume at", 0 if place is None else place.global_step))

    def _continue(self) -> None:
        """Move the loop, the callbacks and the extensions to the place of the checkpoint. Call it before `before_train`."""
        self.loop.global_step = get_global_step_value()
        state = self._checkpoint_state
        continue_from(self._find_place(), self.loop, self._callbacks, state)
        states = state if self.loop.is_resumed and state is not None else {}
        for extension in self.extensions:
            if extension.state_name in states:
                extension.load_state_dict(self, states[extension.state_name])

    def _begin_epochs(self) -> None:
        """Call the extensions after `before_train` of the callbacks, one of which may have changed the counter."""
        self.loop.global_step = get_global_step_value()
        for extension in self.extensions:
            extension.before_epochs(self)

    # For trainings with several ranks --------------------------------------------------------------------------------
    def _takes_part(self, cb: Callback) -> bool:
        """Return whether a process that is not the chief has this callback although it is `chief_only`."""
        return False

    def _find_place(self) -> Place | None:
        return find_place(self.loop, self._callbacks, self._checkpoint_state)

    def _ask_chief(self, name: str, value: Any) -> Any:
        return value  # a process that trains alone is the chief
