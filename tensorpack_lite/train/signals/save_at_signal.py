"""Saving a training that SIGTERM, SIGUSR1 or Ctrl-C ends."""

from __future__ import annotations

from types import TracebackType
from typing import Sequence

from ...callbacks.directories import find_checkpoint_dir
from ...compat import tfv1 as tf
from ...loop.group import Callbacks
from ...loop.session import HookedSession
from ...loop.signals.end_signals import EndSignals, Preempted, hides_preempted
from ...loop.state import TrainLoop
from ...tfutils.common import get_global_step_var
from ...tfutils.dependency import updates_wait_for_data
from ...tfutils.exact.state import find_exact
from ...utils import logger
from ..resume import find_savers


class SaveAtSignal:
    """
    Context manager around the main loop that saves a checkpoint when a signal ends the loop.

    The checkpoint is written by the first ModelSaver that saves to the logger's directory, from which
    training resumes; if there is none, by the first ModelSaver. An asynchronous save in progress is finished
    before. The place counts a step or callback that the signal interrupted as not done, so a resumed training
    runs it again.

    Args:
        end_signals: the signals; None does nothing.
        loop, callbacks: the training.
        step_ops: the operations and tensors that a step may run.
        session: the session of the steps.
    """

    def __init__(
        self,
        end_signals: EndSignals | None,
        loop: TrainLoop,
        callbacks: Callbacks,
        step_ops: Sequence[tf.Operation | tf.Tensor],
        session: HookedSession,
    ) -> None:
        self._end_signals, self._loop, self._callbacks, self._session = end_signals, loop, callbacks, session
        self._steps_can_fail = end_signals is not None and bool(step_ops) and all(map(updates_wait_for_data, step_ops))
        self._has_woken = False  # a run may have been made to fail

    def wake(self) -> None:
        """Make a run fail that waits for data, unless it may already have updated variables. See Interruptible."""
        if self._end_signals is not None and not self._end_signals.wakes:
            return
        is_in_step = self._callbacks.current_call is None
        if self._loop.has_stepped and is_in_step and not self._steps_can_fail:
            return
        self._has_woken = True
        self._callbacks.interrupt()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end_signals = self._end_signals
        if end_signals is None or end_signals.number is None or end_signals.is_given_up:
            return
        if isinstance(error, Preempted):
            self._callbacks.undo_call()
            self._save()
        elif hides_preempted(error):  # before the first step, so there is nothing to save
            raise end_signals.error() from None
        elif self._has_woken and isinstance(error, (KeyboardInterrupt, tf.errors.OpError)):
            is_in_step = self._callbacks.current_call is None
            self._callbacks.undo_call()
            if is_in_step and self._loop.is_partly_done:
                logger.warning("The signal interrupted a step between two runs. The latest checkpoint counts.")
            elif self._undo_run(error, is_in_step):
                self._save()
            raise end_signals.error() from None

    def _undo_run(self, error: BaseException, is_in_step: bool) -> bool:
        """Count the datapoints of the run that failed as not used. Return whether it is known which ones they were."""
        exact = find_exact()
        failed = self._session.failed if is_in_step and isinstance(self._session, HookedSession) else None
        if exact is not None and failed is not None:
            exact.undo_run(failed)
        # A run of the hooked session of an InferenceRunner, whose position is held, raises the KeyboardInterrupt of its input.
        elif exact is not None and isinstance(error, tf.errors.OpError):
            logger.warning(
                "The signal interrupted a run of the raw session that waited for data. The latest checkpoint counts."
            )
            return False
        return True

    def _save(self) -> None:
        if not self._loop.has_stepped:
            logger.info("No step was done, so there is nothing to save.")
            return
        savers = find_savers(self._callbacks)
        if not savers:
            logger.warning("There is no ModelSaver among the callbacks, so nothing can be saved.")
            return
        # an interrupted run may have incremented the variable
        assign = get_global_step_var().initializer
        tf.get_default_session().run(assign, {assign.inputs[1]: self._loop.global_step})
        directory = find_checkpoint_dir(None)
        saver = next((saver for saver in savers if saver.checkpoint_dir == directory), savers[0])
        # without a limit: the process ends when the time is over, see EndSignals
        saver.wait()
        saver.trigger()
        saver.wait()
