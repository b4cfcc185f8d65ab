"""The place in a training where a checkpoint was saved, and where a resumed training continues."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence

from .moments import MOMENTS, after_step, after_steps, before_step

_NUMBERS = ("epoch_num", "num_steps", "steps_per_epoch", "global_step", "num_called")
_PHASES = [name for name, moment in MOMENTS.items() if moment.at_resume]


class ResumePoint(NamedTuple):
    """
    A point between two callbacks of a training.

    A callback saves the checkpoint, while the list of callbacks is being called. So the place contains the
    step and also the position in that list; the callback that saves counts as called.

    Attributes:
        epoch_num: the epoch, from 1.
        num_steps: the number of its steps that are done.
        steps_per_epoch: the number of steps in an epoch; 0 if unknown.
        global_step: the number of runs of the hooked session.
        phase: the latest moment of the callbacks, as in `Callbacks`.
        callbacks: the names of all callbacks.
        num_called: the number of callbacks that the phase has reached.
    """

    epoch_num: int
    num_steps: int
    steps_per_epoch: int
    global_step: int
    phase: str
    callbacks: List[str]
    num_called: int

    @classmethod
    def from_dict(cls, record: Any, source: str) -> ResumePoint:
        """
        Build a place from the dict that `_asdict()` returned, read from a file or received from another process.

        Args:
            record: a dict of the attributes.
            source: where it comes from, for the error message.

        Raises:
            ValueError: an attribute is missing or out of range.
        """
        record = record if isinstance(record, dict) else {}
        names = record.get("callbacks")
        is_whole = (
            all(type(record.get(name)) is int and record[name] >= 0 for name in _NUMBERS)
            and record.get("phase") in _PHASES
            and isinstance(names, list)
            and all(isinstance(name, str) for name in names)
            and record["num_called"] <= len(names)
        )
        if not is_whole:
            raise ValueError(
                f"{source}: the place of the training is not valid (expected {', '.join(cls._fields)}, got {record!r})."
            )
        return cls(**{name: record[name] for name in cls._fields})

    @property
    def starting_epoch(self) -> int:
        """The first epoch with steps left to do, or with callbacks left to call at its end."""
        return self.epoch_num + 1 if self.phase in after_steps() else self.epoch_num

    @property
    def has_moments_left(self) -> bool:
        """Whether a later moment of the same step, or of the same end of an epoch, is still to come."""
        return any(self.phase in moments[:-1] for moments in (after_step(), after_steps()))

    @property
    def has_triggers_left(self) -> bool:
        """Whether callbacks are left to call after the last step that is done, which are those that trigger something."""
        is_after = self.phase in after_step() + after_steps()
        return (is_after and self.num_called < len(self.callbacks)) or self.has_moments_left

    def with_steps_per_epoch(self, steps_per_epoch: int) -> ResumePoint:
        """
        Return the place after the same number of steps in epochs of another length, with all callbacks called.

        A place before a step stays one, because that step comes next in any case.
        """
        if steps_per_epoch == self.steps_per_epoch:
            return self
        epoch_num, num_steps = self.starting_epoch, 0
        if steps_per_epoch > 0 and self.steps_per_epoch > 0:
            total = (self.epoch_num - 1) * self.steps_per_epoch + self.num_steps
            epoch_num, num_steps = total // steps_per_epoch + 1, total % steps_per_epoch
        place = self._replace(epoch_num=epoch_num, num_steps=num_steps, steps_per_epoch=steps_per_epoch)
        if self.phase in before_step() and steps_per_epoch > 0:
            return place
        return place._replace(phase="before_epoch", num_called=len(self.callbacks))

    def with_phase_finished(self) -> ResumePoint:
        """Return the next place at which all callbacks have been called. Later moments of the same end of an epoch stay due."""
        if self.phase in after_steps()[-1:]:
            return self._replace(
                epoch_num=self.starting_epoch,
                num_steps=0,
                phase="before_epoch",
                num_called=len(self.callbacks),
            )
        return self._replace(num_called=len(self.callbacks))

    def num_called_of(self, names: Sequence[str], without_calls: Sequence[str] = ()) -> int | None:
        """
        Return how many callbacks of another list have been called; they are the first ones of that list.

        Args:
            names: the names of that list's callbacks.
            without_calls: the names of those that have nothing to do between `before_train` and `after_train`.

        Returns:
            A number; None if it is unknown, because a callback was added or the order changed. Callbacks may have been
            removed, and those in `without_calls` may have been added.
        """
        if self.num_called == len(self.callbacks):
            return len(names)
        position = num_called = 0
        for number, name in enumerate(names, 1):
            if name in self.callbacks[position:]:
                position = self.callbacks.index(name, position) + 1
                num_called = number if position <= self.num_called else num_called
            elif name not in without_calls:
                return None
        return num_called
