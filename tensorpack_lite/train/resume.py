"""
Saving and resuming the place of a training.

The `.state` file of a checkpoint holds the place of the training and the states of its callbacks, and the
`.end` file those at the end of that epoch. `find_checkpoint` reads one of them, `SessionInit.checkpoint_state` carries it
to the trainer, and `continue_from`
moves the loop and the callbacks there.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np

from ..callbacks.monitor.base import MonitorBase
from ..callbacks.monitor.json_file import JSONWriter
from ..callbacks.monitor.monitors import Monitors
from ..callbacks.saver import ModelSaver
from ..compat import tfv1 as tf
from ..loop.callback import Callback
from ..loop.group import Callbacks, innermost
from ..loop.moments import after_steps, before_step
from ..loop.resume_point import ResumePoint
from ..loop.state import TrainLoop
from ..tfutils.checkpoint_reader import CheckpointReader, read_checkpoint_state
from ..tfutils.checkpoint_state import STATE_SUFFIX, read_end, read_state
from ..tfutils.exact.state import find_exact
from ..tfutils.partitions import find_values
from ..tfutils.sessinit import SaverRestore, SessionInit
from ..tfutils.varmanip import SessionUpdate, is_training_name
from ..utils import logger
from ..utils.errors import DamagedFileError


# From a directory to a SessionInit -----------------------------------------------------------------------------------
def find_checkpoint(directory: str) -> SaverRestore | None:
    """
    Find the latest checkpoint in a directory, and the state of the training that saved it, at the end of that epoch if it has ended.

    A checkpoint without a `.state` file gets the place that `stats.json` lists for its `global_step`, if there is one.

    Args:
        directory: where the checkpoints and `stats.json` are.

    Returns:
        A SaverRestore; its `checkpoint_state` is None if the epoch is unknown. None if there is no checkpoint.

    Raises:
        FileNotFoundError: the file `checkpoint` lists checkpoints, but none of them exists.
        ValueError: the `.state` file is damaged or from a newer version; or there is none, and `stats.json` is damaged, or the
            checkpoint has no `global_step`.
    """
    if not os.path.isfile(os.path.join(directory, "checkpoint")):
        return None
    path = _latest(directory)
    end = read_end(path)
    restore = _RestoreTraining(path, {} if end is None else end.variables)
    state = read_state(restore.path + STATE_SUFFIX) if end is None else end.state
    if state is None:
        place = _guess_place(directory, restore.path)
        state = None if place is None else {"place": place._asdict(), "callbacks": {}}
    else:
        place = ResumePoint.from_dict(state.get("place"), f"'{restore.path}{STATE_SUFFIX}'")
        restore.later["global_step"] = np.int64(place.global_step)  # a checkpoint may have weights only
    restore.checkpoint_state = state
    return restore


class _RestoreTraining(SaverRestore):
    """
    Initializer that restores a checkpoint to continue its training, and values that are not in the checkpoint.

    It names the variables of optimizers that the checkpoint does not have, which SaverRestore does not.

    Args:
        path: the checkpoint.
        later: values by name, such as of variables that callbacks have changed after the checkpoint was saved.
    """

    _advice = (
        "The model has changed since the checkpoint was saved. To train the new model from the beginning, use another directory: "
        "logger.set_logger_dir(...). To begin with the weights that still fit, also pass always_resume=False and "
        "session_init=SmartInit(path, ignore_mismatch=True) to AutoResumeTrainConfig. To continue the training, restore the model."
    )

    def __init__(self, path: str, later: dict[str, np.ndarray]) -> None:
        super().__init__(path)
        self.later = dict(later)

    def _report_new(self, names: list[str]) -> None:
        trainable = {variable.op.name for variable in tf.trainable_variables()}
        new = [name for name in names if name in trainable and name not in self.later]
        super()._report_new([name for name in names if name not in trainable])
        if new:
            _warn_or_raise(
                f"{self.path} does not have {', '.join(new)}, which keep their initial values. {self._advice}"
            )

    def _run_init(self, sess: tf.Session) -> None:
        super()._run_init(sess)
        variables = sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        values, _ = find_values(variables, self.later)
        SessionUpdate(sess, variables).update(values)
        if "global_step" in self.missing:
            logger.info(f"{self.path} has no global_step. Its state says {self.later.get('global_step')}.")
        self.missing = [name for name in self.missing if f"{name}:0" not in values]
        lost = [name for name in self.missing if is_training_name(name)]
        if lost:
            logger.warning(
                f"{self.path} does not have these variables of the optimizer, which begin with their initial values: "
                f"{', '.join(lost)}. A ModelSaver without var_collections saves them."
            )


def _latest(directory: str) -> str:
    """Return the latest checkpoint that exists. The newest one listed is missing if the process was killed while replacing it."""
    listed = read_checkpoint_state(directory)
    paths = [listed.model_checkpoint_path, *reversed(listed.all_model_checkpoint_paths)] if listed else []
    path = next((str(path) for path in paths if tf.gfile.Exists(path + ".index")), None)
    if path is None:
        return os.path.join(directory, "checkpoint")  # the error of SaverRestore names the missing file
    if path != paths[0]:
        logger.warning(f"Checkpoint {paths[0]} is listed as the latest, but does not exist. Using {path}.")
    return path


def _guess_place(directory: str, path: str) -> ResumePoint | None:
    """Find the epoch of a checkpoint without a state from the rows of `stats.json` up to its `global_step`."""
    name = os.path.basename(path)
    try:
        rows = JSONWriter.load_existing_json(directory) or []
    except DamagedFileError as error:
        raise DamagedFileError(
            f"AutoResumeTrainConfig: {name} has no {STATE_SUFFIX} file, and its epoch cannot be read elsewhere: {error} Pass "
            "always_resume=False and starting_epoch=..., the number of the last finished epoch plus 1."
        ) from error
    reader = CheckpointReader(path)
    if "global_step" not in reader.shapes:
        raise ValueError(
            f"AutoResumeTrainConfig: the step of {path} is unknown: it has no {STATE_SUFFIX} file and no variable 'global_step'. To "
            "start a new training from its variables, call logger.set_logger_dir with another directory, and pass "
            f"TrainConfig(session_init=SmartInit('{path}'))."
        )
    step = int(reader.read("global_step"))
    ends = [(row["epoch_num"], row["global_step"]) for row in rows if _has_place(row) and row["global_step"] <= step]
    if not ends:
        return None
    epoch, last_step = ends[-1]
    if last_step < step:  # killed after the checkpoint was saved and before the row was written
        finished_epoch, finished_step = ([end for end in ends if end[0] < epoch] or ends)[-1]
        epoch = step * finished_epoch // finished_step
    logger.warning(
        f"{name} has no {STATE_SUFFIX} file: an earlier version saved it. {JSONWriter.FILENAME} says that its epoch is {epoch}."
    )
    return ResumePoint(epoch + 1, 0, 0, step, "before_epoch", [], 0)


def _has_place(row: object) -> bool:
    return isinstance(row, dict) and all(
        type(row.get(key)) is int and row[key] > 0 for key in ("epoch_num", "global_step")
    )


def resume_point_of(session_init: object) -> ResumePoint | None:
    """Return the place in the state that a SessionInit carries; None if it carries none, or for any other object."""
    state = session_init.checkpoint_state if isinstance(session_init, SessionInit) else None
    return None if state is None else ResumePoint.from_dict(state.get("place"), "SessionInit.checkpoint_state")


def advance_graph_seed(step: int) -> None:
    """
    Change the graph's seed if a training resumes after some steps, so that its random operations do not repeat epoch 1.

    Call it before the operations are built.

    Args:
        step: the `global_step` at which the training resumes; 0 changes nothing.
    """
    seed = tf.get_default_graph().seed
    if step > 0 and seed is not None:
        digest = hashlib.sha256(f"{seed}, step {step}".encode()).digest()
        tf.set_random_seed(int.from_bytes(digest[:4], "little") >> 1)


# Between a training and its state ------------------------------------------------------------------------------------
def take_state(loop: TrainLoop, callbacks: Callbacks, resumed_state: dict[str, Any] | None) -> dict[str, Any]:
    """
    Return the state of a checkpoint that is saved now: the place of the training, and the states of its callbacks.

    Args:
        loop, callbacks: the training.
        resumed_state: the state that the training resumed from, if any.
    """
    is_before_train = callbacks.phase == "before_train"
    if is_before_train and loop.is_resumed:
        return resumed_state or {}  # nothing has happened since
    place = ResumePoint(
        epoch_num=loop.starting_epoch if is_before_train else loop.epoch_num,
        num_steps=loop.num_done,
        steps_per_epoch=loop.steps_per_epoch,
        global_step=loop.global_step,
        phase=callbacks.phase,
        callbacks=[str(cb) for cb in callbacks.cbs],
        num_called=callbacks.num_called,
    )
    return {"place": place._asdict(), "callbacks": callbacks.state_dict()}


def find_savers(callbacks: Callbacks) -> list[ModelSaver]:
    """Return the ModelSavers of a training, also those inside proxies."""
    return [saver for saver in map(innermost, callbacks.cbs) if isinstance(saver, ModelSaver)]


def find_resume_point(loop: TrainLoop, callbacks: Callbacks, state: dict[str, Any] | None) -> ResumePoint | None:
    """
    Return the place at which a training continues.

    Args:
        loop, callbacks: the training; the loop is configured.
        state: the state of the checkpoint, if any.

    Returns:
        The place; None if the training starts from its first epoch.

    Raises:
        RuntimeError: with `exact="require"`: calls of callbacks are skipped, or the training starts elsewhere.
    """
    if state is None:
        return None
    saved = ResumePoint.from_dict(state["place"], "SessionInit.checkpoint_state")
    place = saved.with_steps_per_epoch(loop.steps_per_epoch)
    if place.starting_epoch != loop.starting_epoch:
        _warn_or_raise(
            f"Training starts with epoch {loop.starting_epoch}, as given, although the checkpoint was saved in epoch "
            f"{place.epoch_num}."
        )
        return None
    if place.phase == "before_train":
        return None
    is_moved = place is not saved and saved.steps_per_epoch > 0
    if is_moved:
        logger.warning(
            f"steps_per_epoch was {saved.steps_per_epoch} and is {loop.steps_per_epoch}. Training continues after the same number "
            f"of steps, which is step {place.num_steps} of epoch {place.epoch_num}."
        )
    if is_moved and place.phase not in before_step():
        _warn_or_raise_skipped(saved._replace(num_called=0) if saved.has_moments_left else saved, callbacks, "")
    elif _num_called(place, callbacks) is None:
        differ = "The callbacks differ from those of the training that is resumed. "
        _warn_or_raise_skipped(place, callbacks, differ)
        place = place.with_phase_finished()
    if place.phase == after_steps()[-1] and place.num_called == len(place.callbacks):
        return place.with_phase_finished()  # the epoch has ended
    return place


def _num_called(place: ResumePoint, callbacks: Callbacks) -> int | None:
    return place.num_called_of([str(cb) for cb in callbacks.cbs], callbacks.names_without_owed_calls)


def _warn_or_raise_skipped(place: ResumePoint, callbacks: Callbacks, reason: str) -> None:
    finished = {str(cb) for cb in callbacks.cbs if isinstance(cb, (MonitorBase, Monitors))}
    skipped = [name for name in place.callbacks[place.num_called :] if name not in finished]
    if skipped:
        _warn_or_raise(
            f"{reason}Calls that were due when the checkpoint was saved ({place.phase} at step {place.num_steps} of epoch "
            f"{place.epoch_num}) are skipped: {', '.join(skipped)}."
        )


def _finish_monitor(cb: Callback, loop: TrainLoop, saved: ResumePoint, place: ResumePoint) -> None:
    """Let a monitor write the values that waited in a checkpoint, if the calls that were due there are skipped."""
    is_whole = saved.num_called == len(saved.callbacks)
    has_other_epochs = saved.steps_per_epoch != place.steps_per_epoch
    is_skipped = not is_whole and place.num_called == len(place.callbacks)
    waits_for_epoch = has_other_epochs and not (is_whole and saved.phase in after_steps())
    if not isinstance(cb, MonitorBase) or not (is_skipped or waits_for_epoch):
        return
    epoch, loop.epoch_num = loop.epoch_num, saved.epoch_num
    getattr(cb, "trigger" if has_other_epochs else saved.phase)()
    loop.epoch_num = epoch


def _warn_or_raise(sentence: str) -> None:
    """Log a warning; raise RuntimeError if exactness is required."""
    exact = find_exact()
    if exact is None:
        logger.warning(sentence)
    else:
        exact.warn_or_raise(sentence)


def continue_from(
    place: ResumePoint | None, loop: TrainLoop, callbacks: Callbacks, state: dict[str, Any] | None
) -> None:
    """
    Move a training to a place. Call it before `before_train`.

    Args:
        place: the place; None changes nothing.
        loop, callbacks: the training.
        state: the state of the checkpoint, if this process has read it.
    """
    if place is None:
        return
    state = state or {}
    called = _num_called(place, callbacks)
    # only the chief's state has a place
    saved = ResumePoint.from_dict(state["place"], "SessionInit.checkpoint_state") if "place" in state else place
    loop.resume_at(place.epoch_num, place.num_steps, place.has_triggers_left)
    callbacks.resume_at(
        place.phase,
        len(callbacks.cbs) if called is None else called,
        state.get("callbacks", {}),
        lambda cb: _finish_monitor(cb, loop, saved, place),
    )
    logger.info(
        f"Resuming after step {place.num_steps} of {loop.steps_per_epoch} of epoch {place.epoch_num} "
        f"(global_step {loop.global_step})."
    )
