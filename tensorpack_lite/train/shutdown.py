"""The end of the main loop: its outcome, `after_train` of all callbacks, and the closing of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compat import private
from ..loop.state import Outcome
from ..utils import logger

if TYPE_CHECKING:
    from .base import Trainer

__all__ = ["Shutdown"]


class Shutdown:
    """
    Context of the main loop: notes how training ended, calls `after_train`, and closes the session.

    Args:
        trainer: the trainer whose loop runs inside.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def __enter__(self) -> None:
        """Nothing to open."""

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        outcome = self._trainer.loop.end(error)
        self._log(error, outcome)
        has_failed = outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
        try:
            self._trainer._callbacks.after_train()
        except BaseException:  # logged by Callbacks; training's own error matters more
            if not has_failed:
                raise
            return False
        finally:
            self._close(has_failed)
        return not has_failed

    def _close(self, has_failed: bool) -> None:
        try:
            self._trainer.hooked_sess.close()
        except Exception:  # logged below; training's own error matters more
            if not has_failed:
                raise
            logger.exception("Closing the session failed too.")
        finally:
            private.unfinalize(self._trainer.sess.graph)
            logger.unlock_dir()

    def _log(self, error: BaseException | None, outcome: Outcome) -> None:
        what = f"{type(error).__name__}: {error}"
        if outcome is Outcome.STOPPED:
            logger.info(f"Training was stopped by {what}")
        elif isinstance(error, KeyboardInterrupt):
            logger.info("Ctrl-C: leaving the main loop.")
        elif error is not None:
            logger.error(f"Training failed at global_step={self._trainer.global_step}: {what}")
