"""
Saving and resuming a training's place: the state of a trainer in a checkpoint, and back.

A checkpoint's `.state` file holds the place of the training and the states of its callbacks. `find_checkpoint` reads it,
`SessionInit.checkpoint_state` carries it to the trainer, and `continue_from` puts loop and callbacks there.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from ..callbacks.monitor.json_file import JSONWriter
from ..compat import tfv1 as tf
from ..loop.place import Place
from ..tfutils.checkpoint_reader import CheckpointReader, read_checkpoint_state
from ..tfutils.checkpoint_state import STATE_SUFFIX, read_state
from ..tfutils.sessinit import SaverRestore, SessionInit
from ..utils import logger
from ..utils.errors import DamagedFileError
from ..utils.utils import advance_rng_seed

if TYPE_CHECKING:
    from .base import Trainer

__all__ = [
    "advance_graph_seed",
    "advance_streams",
    "continue_from",
    "find_checkpoint",
    "find_place",
    "place_of",
    "take_state",
]


# From a directory to a SessionInit -----------------------------------------------------------------------------------
def find_checkpoint(directory: str) -> SaverRestore | None:
    """
    Find the latest checkpoint of a directory, and the state of the training that saved it.

    A checkpoint without a `.state` file gets the place that `stats.json` gives for its `global_step`, if there is one.

    Args:
        directory: where the checkpoints and `stats.json` are.

    Returns:
        A SaverRestore; its `checkpoint_state` is None if no epoch is known. None if there is no checkpoint.

    Raises:
        FileNotFoundError: the file `checkpoint` lists checkpoints, but no one of them is there.
        ValueError: the `.state` file is damaged or from a newer version; or there is none, and `stats.json` is damaged.
    """
    if not os.path.isfile(os.path.join(directory, "checkpoint")):
        return None
    restore = SaverRestore(_latest(directory))
    state = read_state(restore.path + STATE_SUFFIX)
    if state is None:
        place = _guess_place(directory, restore.path)
        state = None if place is None else {"place": place._asdict(), "callbacks": {}}
    else:
        Place.from_dict(state.get("place"), f"'{restore.path}{STATE_SUFFIX}'")
    restore.checkpoint_state = state
    return restore


def _latest(directory: str) -> str:
    """Return the latest checkpoint that is there; the newest of the list is missing if it was being replaced at a kill."""
    listed = read_checkpoint_state(directory)
    paths = (
        [] if listed is None else [listed.model_checkpoint_path, *reversed(listed.all_model_checkpoint_paths)]
    )
    for path in paths:
        if tf.gfile.Exists(path + ".index"):
            if path != paths[0]:
                logger.warning(
                    f"Checkpoint {paths[0]} is listed as the latest, but is not there; using {path}."
                )
            return str(path)
    return os.path.join(directory, "checkpoint")  # SaverRestore's error names what is missing


def _guess_place(directory: str, path: str) -> Place | None:
    """Find the epoch of a checkpoint without a state in `stats.json`, in the rows up to the checkpoint's `global_step`."""
    name = os.path.basename(path)
    try:
        rows = JSONWriter.load_existing_json(directory) or []
    except DamagedFileError as error:
        raise DamagedFileError(
            f"AutoResumeTrainConfig: {name} has no {STATE_SUFFIX} file, and its epoch cannot be read elsewhere: {error} Then pass "
            "always_resume=False and starting_epoch=..., one after the last finished epoch."
        ) from error
    reader = CheckpointReader(path)
    step = int(reader.read("global_step")) if "global_step" in reader.shapes else 0
    ends = [
        (row["epoch_num"], row["global_step"])
        for row in rows
        if _has_place(row) and row["global_step"] <= step
    ]
    if not ends:
        return None
    epoch, last_step = ends[-1]
    if last_step < step:  # killed after the checkpoint was saved and before the row was written
        finished_epoch, finished_step = ([end for end in ends if end[0] < epoch] or ends)[-1]
        epoch = step * finished_epoch // finished_step
    logger.warning(
        f"{name} has no {STATE_SUFFIX} file, so an earlier version saved it. Its epoch, {epoch}, follows from {JSONWriter.FILENAME}."
    )
    return Place(epoch + 1, 0, 0, step, "before_epoch", [], 0)


def _has_place(row: Any) -> bool:
    return isinstance(row, dict) and all(
        type(row.get(key)) is int and row[key] > 0 for key in ("epoch_num", "global_step")
    )


def place_of(session_init: Any) -> Place | None:
    """Return the place in the state that a SessionInit carries; None if it carries none, or is something else."""
    state = session_init.checkpoint_state if isinstance(session_init, SessionInit) else None
    return None if state is None else Place.from_dict(state.get("place"), "SessionInit.checkpoint_state")


# Random streams ------------------------------------------------------------------------------------------------------
def advance_streams(trainer: Trainer, session_init: SessionInit) -> None:
    """Let the streams of `get_rng` differ from those of the first epoch, if the training continues another one."""
    advance_rng_seed(_step_to_resume_at(trainer, session_init))


def advance_graph_seed(trainer: Trainer, session_init: SessionInit) -> None:
    """Let random operations differ from those of the first epoch, if the training continues another one; before they are built."""
    step, seed = _step_to_resume_at(trainer, session_init), tf.get_default_graph().seed
    if step > 0 and seed is not None:
        digest = hashlib.sha256(f"{seed}, step {step}".encode()).digest()
        tf.set_random_seed(int.from_bytes(digest[:4], "little") >> 1)


def _step_to_resume_at(trainer: Trainer, session_init: SessionInit) -> int:
    place = place_of(session_init)
    return int(trainer._ask_chief("the step to resume at", 0 if place is None else place.global_step))


# From a trainer to a state, and back ---------------------------------------------------------------------------------
def take_state(trainer: Trainer) -> dict[str, Any]:
    """Return what a checkpoint that is saved now keeps of a trainer: its place, and the states of its callbacks."""
    loop, callbacks = trainer.loop, trainer._callbacks
    if callbacks.phase == "before_train" and loop.is_resumed:
        return trainer._checkpoint_state or {}  # nothing has happened since
    is_before_train = callbacks.phase == "before_train"
    is_before_steps = callbacks.phase in ("before_train", "before_epoch")
    place = Place(
        epoch_num=loop.starting_epoch if is_before_train else loop.epoch_num,
        num_steps=loop.starting_step if is_before_steps else loop.local_step + 1,
        steps_per_epoch=loop.steps_per_epoch,
        global_step=loop.global_step,
        phase=callbacks.phase,
        callbacks=[str(cb) for cb in callbacks.cbs],
        num_called=callbacks.num_called,
    )
    return {"place": place._asdict(), "callbacks": callbacks.state_dict()}


def find_place(trainer: Trainer) -> Place | None:
    """Return the place at which a trainer whose loop is configured continues; None if it begins a training of its own."""
    state, loop = trainer._checkpoint_state, trainer.loop
    if state is None:
        return None
    saved = Place.from_dict(state["place"], "SessionInit.checkpoint_state")
    place = saved.with_steps_per_epoch(loop.steps_per_epoch)
    if place.starting_epoch != loop.starting_epoch:
        logger.warning(
            f"Training begins with epoch {loop.starting_epoch}, as given, and not where the checkpoint was saved, in epoch "
            f"{place.epoch_num}."
        )
        return None
    if place.phase == "before_train":
        return None
    if place is not saved and saved.steps_per_epoch > 0:
        logger.warning(
            f"steps_per_epoch was {saved.steps_per_epoch} and is {loop.steps_per_epoch}. Training continues after the same number "
            f"of steps, which is step {place.num_steps} of epoch {place.epoch_num}."
        )
    if place.num_called_of([str(cb) for cb in trainer._callbacks.cbs]) is None:
        logger.warning(
            f"The callbacks are not those of the training that is resumed. Those that were due when the checkpoint was saved "
            f"({place.phase} at step {place.num_steps} of epoch {place.epoch_num}) are left out: "
            f"{', '.join(place.callbacks[place.num_called :])}."
        )
        place = place.with_phase_finished()
    return place


def continue_from(trainer: Trainer, place: Place | None) -> None:
    """Put a trainer's loop and callbacks at a place, if there is one; to be called before `before_train`."""
    if place is None:
        return
    names = [str(cb) for cb in trainer._callbacks.cbs]
    called = place.num_called_of(names)
    states = (trainer._checkpoint_state or {}).get("callbacks", {})
    trainer.loop.resume_at(place.epoch_num, place.num_steps)
    trainer._callbacks.resume_at(place.phase, len(names) if called is None else called, states)
    logger.info(
        f"Resuming after step {place.num_steps} of {trainer.loop.steps_per_epoch} of epoch {place.epoch_num} "
        f"(global_step {trainer.loop.global_step})."
    )
