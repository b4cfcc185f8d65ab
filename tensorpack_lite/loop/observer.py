"""Observation of the runs of a session, for features that training does not need."""

from __future__ import annotations

from .step import Step


class RunObserver:
    """
    Base class of objects that see the runs of a `HookedSession`, while they are in its list `observers`.

    The calls come right before and after the raw session runs, so the hooks' own time is not included. An error of an observer
    ends the run.
    """

    def begin_run(self, step: Step) -> None:
        """
        Be told that a run begins.

        Args:
            step: the prepared combination of fetches.
        """

    def end_run(self, step: Step, succeeded: bool) -> None:
        """
        Be told that a run has ended.

        Args:
            step: as in `begin_run`.
            succeeded: whether it has returned values. Otherwise it raises an error.
        """
