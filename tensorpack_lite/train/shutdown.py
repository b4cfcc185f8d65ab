"""The end of the main loop: its outcome, `after_train` of all callbacks, and closing the session."""

from __future__ import annotations

from types import TracebackType

from ..compat import private
from ..compat import tfv1 as tf
from ..loop.group import Callbacks
from ..loop.preemption import Preempted
from ..loop.state import Outcome, TrainLoop
from ..utils import logger

__all__ = ["Shutdown"]


class Shutdown:
    """
    Context manager around the main loop. At its end it sets the outcome, calls `after_train`, and closes the session.

    Args:
        loop: the loop, which gets the outcome.
        callbacks: the callbacks.
        session: the hooked session.
        graph: the graph, which may be changed again after the session is closed.
    """

    def __init__(self, loop: TrainLoop, callbacks: Callbacks, session: tf.Session, graph: tf.Graph) -> None:
        self._loop, self._callbacks, self._session, self._graph = loop, callbacks, session, graph

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        outcome = self._loop.end(error)
        self._log(error, outcome)
        has_failed = outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
        try:
            self._callbacks.after_train()
        except BaseException:  # Callbacks has logged it; an error of the training itself is raised instead
            if not has_failed:
                raise
        finally:
            self._close(has_failed)
        return not has_failed

    def _close(self, has_failed: bool) -> None:
        try:
            self._session.close()
        except Exception:  # logged; an error of the training itself is raised instead
            if not has_failed:
                raise
            logger.exception("Closing the session failed too.")
        finally:
            private.unfinalize(self._graph)
            logger.unlock_dir()

    def _log(self, error: BaseException | None, outcome: Outcome) -> None:
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, tf.errors.OutOfRangeError):  # whose text is a list of operations
            logger.info(
                f"Training was stopped by OutOfRangeError: the data ended at global_step={self._loop.global_step}. To train "
                "longer, repeat it: dataset.repeat(), or RepeatedData(dataflow, -1)."
            )
        elif outcome is Outcome.STOPPED:
            logger.info(f"Training was stopped by {what}")
        elif isinstance(error, KeyboardInterrupt):
            logger.info("Ctrl-C: leaving the main loop.")
        elif isinstance(error, Preempted):
            logger.info(
                f"{error} It ends at global_step={self._loop.global_step} with exit code {error.code}."
            )
        elif error is not None:
            logger.error(f"Training failed at global_step={self._loop.global_step}: {what}")
