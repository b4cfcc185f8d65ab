"""The extension that locks the logger's directory during a training."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from ..loop.extension import ExtendedTrainer, Extension
from ..utils import logger


class DirectoryLock(Extension):
    """Extension that lets no other process train in the logger's directory until this training has ended; see `logger.lock_dir`."""

    @contextmanager
    def around_training(self, trainer: ExtendedTrainer) -> Iterator[None]:
        """Unlock the directory at the end."""
        try:
            yield
        finally:
            logger.unlock_dir()

    def before_setup(self, trainer: ExtendedTrainer) -> None:
        """
        Lock the directory, on the chief.

        Raises:
            OSError: another process trains there.
        """
        if trainer.is_chief:
            logger.lock_dir()
