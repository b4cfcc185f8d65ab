"""The beginnings and ends of epochs, and the end of the main loop: their log lines, and closing the session."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from ..compat import private
from ..compat import tfv1 as tf
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..loop.signals.end_signals import Preempted
from ..loop.state import Outcome, TrainLoop
from ..utils import logger
from ..utils.utils import humanize_time_delta
from .resume import find_savers


def log_start(loop: TrainLoop) -> None:
    """Log that the first epoch of this process begins. Of the others, the ends are enough."""
    log = logger.info if loop.epoch_num <= loop.starting_epoch or loop.starting_step else logger.debug
    log(f"{'Resume' if loop.starting_step else 'Start'} epoch {loop.epoch_num} ...")


def log_epoch(loop: TrainLoop, seconds: float) -> None:
    """Log that the steps of an epoch are done, unless training resumed only for its callbacks."""
    if not 0 < loop.starting_step == loop.steps_per_epoch:
        spent = humanize_time_delta(seconds)
        logger.info(f"Epoch {loop.epoch_num} (global_step {loop.global_step}) finished, time: {spent}.")


def end_epoch(callbacks: Callbacks) -> None:
    """Record the end of an epoch, all of whose callbacks have been called, next to the checkpoints that were saved in it."""
    for saver in find_savers(callbacks):
        saver.epoch_end.end()


@contextmanager
def close_session(loop: TrainLoop, session: HookedSession, graph: tf.Graph) -> Iterator[None]:
    """
    Context for what follows the loop. Then the session is closed, `loop.at_end` is called, and the graph may be changed again.

    Raises:
        Exception: the first error of these, if training itself ended without an error. Otherwise that error is raised.
    """
    has_failed = loop.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    try:
        yield
    except BaseException:  # Callbacks has logged it
        if not has_failed:
            raise
    finally:
        _close(loop, session, graph, has_failed)


def _close(loop: TrainLoop, session: HookedSession, graph: tf.Graph, has_failed: bool) -> None:
    try:
        with loop.at_end:
            session.close()
    except Exception:  # logged; an error of the training itself is raised instead
        if not has_failed:
            raise
        logger.exception("Closing the session failed too.")
    finally:
        private.unfinalize(graph)


def name_checkpoints(loop: TrainLoop, callbacks: Callbacks) -> None:
    """Log the latest checkpoint of a training that an error or Ctrl-C has ended."""
    if loop.outcome not in (Outcome.FAILED, Outcome.INTERRUPTED):
        return
    for path in (saver.latest for saver in find_savers(callbacks)):
        if path is not None:
            logger.info(f"The latest checkpoint is {path}. AutoResumeTrainConfig continues from it.")


def log_end(loop: TrainLoop) -> None:
    """Log how training ended."""
    error = loop.error
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, tf.errors.OutOfRangeError):  # whose text is a list of operations
        logger.info(
            f"Training was stopped by OutOfRangeError: the data ended at global_step={loop.global_step}. To train "
            "longer, repeat it: dataset.repeat(), or RepeatedData(dataflow, -1)."
        )
    elif loop.outcome is Outcome.STOPPED:
        logger.info(f"Training was stopped by {what}")
    elif isinstance(error, KeyboardInterrupt):
        logger.info("Ctrl-C: leaving the main loop.")
    elif isinstance(error, Preempted):
        logger.info(f"{error} It ends at global_step={loop.global_step} with exit code {error.code}.")
    elif loop.outcome is Outcome.INTERRUPTED:
        logger.info(f"Training was interrupted at global_step={loop.global_step}: {what}")
    elif error is not None:
        logger.error(f"Training failed at global_step={loop.global_step}: {what}")
