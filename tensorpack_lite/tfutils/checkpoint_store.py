"""
A directory of checkpoints, each of which is complete or absent at any time.

A checkpoint `model-10` consists of `model-10.data-?????-of-?????`, `model-10.state` if a trainer saved it, and `model-10.index`.
Readers ignore a checkpoint without an index. New files are therefore written to a hidden directory beside the others, read back,
and moved into place with the index last; a checkpoint that is removed or replaced loses its index first. The file `checkpoint`,
TensorFlow's list of checkpoints, is replaced after that, in one move.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, Callable, Iterator

from ..compat import tfv1 as tf
from ..utils import logger
from .checkpoint_reader import STATE_FILE, read_checkpoint_state, told_reason
from .checkpoint_state import STATE_SUFFIX, read_state

__all__ = ["CheckpointStore"]

_gfile = tf.io.gfile
_DATA_SUFFIX = re.compile(r"\.data-\d+-of-\d+")
_NOT_ABOUT_FILES = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InvalidArgumentError,
)


class CheckpointStore:
    """
    One directory of checkpoints.

    Args:
        directory: where they are; anything that TensorFlow's file system knows.
        who: the callback or function it works for, for the sentences of errors.

    Attributes:
        directory: as given.
    """

    STATE_FILE = STATE_FILE

    def __init__(self, directory: str, who: str) -> None:
        self.directory = directory
        self._who = who
        self._aside = self.path(".saving")
        self._kept: list[tuple[str, float]] = []  # (name, time of saving), the oldest first

    def path(self, name: str) -> str:
        """Give the path of a file, or the prefix of a checkpoint, in the directory."""
        return f"{self.directory.rstrip('/')}/{name}"

    def files(self, name: str) -> list[str]:
        """
        List the names of a checkpoint's files, the index last.

        Returns:
            Names inside the directory; an empty list if there is no such checkpoint.
        """
        files = _files_of(self.directory, name)
        return files if f"{name}.index" in files else []

    def save(self, name: str, write: Callable[[str], Any]) -> None:
        """
        Add a checkpoint, or replace the one of that name.

        Args:
            name: its name, e.g. "model-10".
            write: writes a checkpoint under the prefix it is given.

        Raises:
            OSError: it could not be written, or not be read back; the other checkpoints are as they were.
        """
        with self._disk_errors(name), self._directory_aside() as aside:
            prefix = f"{aside}/{name}"
            write(prefix)
            _read_back(prefix)
            self._move_into_place(aside, name)

    def copy(self, name: str, copy_name: str) -> None:
        """
        Copy a checkpoint, or replace the copy.

        Raises:
            OSError: it could not be copied, or not be read back; the checkpoint of that name is as it was.
        """
        with self._disk_errors(copy_name), self._directory_aside() as aside:
            for file in self.files(name):
                _gfile.copy(self.path(file), f"{aside}/{copy_name}{file[len(name) :]}")
            _read_back(f"{aside}/{copy_name}")
            self._move_into_place(aside, copy_name)

    def remove_leftovers(self, checkpoints: str, temporary: str) -> None:
        """
        Remove what a killed process left in the directory: the directory aside, temporary files, and parts of checkpoints.

        Args:
            checkpoints: regular expression of the caller's checkpoints; of those, data and states without an index are removed.
            temporary: regular expression of the names of the caller's temporary files.

        Raises:
            OSError: a file cannot be removed.
        """
        self._clear_aside()
        files = _gfile.listdir(self.directory) if _gfile.isdir(self.directory) else []
        for file in files:
            part = re.fullmatch(f"({checkpoints})({_DATA_SUFFIX.pattern}|{re.escape(STATE_SUFFIX)})", file)
            is_lone_part = part is not None and f"{part.group(1)}.index" not in files
            if is_lone_part or re.fullmatch(temporary, file):
                with self._disk_errors(file):
                    _gfile.remove(self.path(file))
                logger.info("%s: removed '%s', which a killed process left.", self._who, self.path(file))

    def adopt_listed(self) -> None:
        """Take over the checkpoints that an earlier training listed, so that they are kept or removed with the new ones."""
        state = read_checkpoint_state(self.directory)
        if state is None:
            return
        times = list(state.all_model_checkpoint_timestamps)
        for position, prefix in enumerate(state.all_model_checkpoint_paths):
            path = PurePosixPath(prefix)
            if path.parent == PurePosixPath(self.directory) and self.files(path.name):
                self._kept.append((path.name, times[position] if position < len(times) else 0.0))

    def record(self, name: str, max_to_keep: int | None, shall_stay: Callable[[float], bool]) -> None:
        """
        List a checkpoint in `checkpoint`, as the latest; take the oldest ones off the list, and remove them.

        Args:
            name: its name.
            max_to_keep: how many stay listed; None or 0 means all.
            shall_stay: told when a checkpoint that leaves the list was saved, says whether its files stay.

        Raises:
            OSError: the file could not be written; the old one is as it was, and nothing was removed.
        """
        kept = [entry for entry in self._kept if entry[0] != name]
        kept.append((name, time.time()))
        dropped = kept[:-max_to_keep] if max_to_keep else []
        self._kept = kept[len(dropped) :]
        self._write_state()
        with self._disk_errors(self.STATE_FILE):
            for old_name, saved_at in dropped:
                if not shall_stay(saved_at):
                    self._remove(old_name)

    def remove(self, name: str) -> None:
        """
        Remove a checkpoint's files; its index, without which nobody takes it for one, goes first.

        Raises:
            OSError: a file cannot be removed.
        """
        with self._disk_errors(name):
            self._remove(name)

    def latest(self) -> str | None:
        """Give the name of the checkpoint that is listed as the latest; None if there is none in this directory."""
        state = read_checkpoint_state(self.directory)
        if state is None or not state.model_checkpoint_path:
            return None
        return PurePosixPath(state.model_checkpoint_path).name

    def write_text(self, file: str, text: str) -> None:
        """
        Replace a small file, in one move.

        Raises:
            OSError: it could not be written.
        """
        with self._disk_errors(file):
            with _gfile.GFile(self.path(f".{file}.tmp"), "w") as stream:
                stream.write(text)
            _gfile.rename(self.path(f".{file}.tmp"), self.path(file), overwrite=True)

    def read_bytes(self, file: str) -> bytes | None:
        """Read a small file; None if there is none."""
        if not _gfile.exists(self.path(file)):
            return None
        with _gfile.GFile(self.path(file), "rb") as stream:
            content: bytes = stream.read()
        return content

    def _write_state(self) -> None:
        names = [name for name, _ in self._kept]
        state = tf.train.generate_checkpoint_state_proto(
            "/",  # names stay relative to wherever the directory is moved
            model_checkpoint_path=names[-1],
            all_model_checkpoint_paths=list(names),
            all_model_checkpoint_timestamps=[saved_at for _, saved_at in self._kept],
        )
        self.write_text(self.STATE_FILE, str(state))

    def _move_into_place(self, aside: str, name: str) -> None:
        files = _files_of(aside, name)
        self._remove(name)
        for file in files:
            _gfile.rename(f"{aside}/{file}", self.path(file), overwrite=True)

    def _remove(self, name: str) -> None:
        for file in reversed(_files_of(self.directory, name)):
            _gfile.remove(self.path(file))

    @contextmanager
    def _directory_aside(self) -> Iterator[str]:
        if not _gfile.isdir(self.directory):
            raise FileNotFoundError(
                f"{self._who}: the checkpoint directory '{self.directory}' does not exist (any more). "
                "Nothing was saved."
            )
        self._clear_aside()
        _gfile.makedirs(self._aside)
        try:
            yield self._aside
        finally:
            self._clear_aside()

    def _clear_aside(self) -> None:
        try:
            if _gfile.exists(self._aside):
                _gfile.rmtree(self._aside)
        except tf.errors.OpError as error:
            logger.warning("%s: cannot remove '%s': %s", self._who, self._aside, error.message)

    @contextmanager
    def _disk_errors(self, name: str) -> Iterator[None]:
        """Turn TensorFlow's errors about files into an OSError that says what was being written."""
        try:
            yield
        except _NOT_ABOUT_FILES:
            raise
        except tf.errors.OpError as error:
            raise OSError(
                f"{self._who}: cannot write '{self.path(name)}': {told_reason(error)}. What was there before is untouched; look "
                "at the disk's space and rights."
            ) from error


def _files_of(directory: str, name: str) -> list[str]:
    """List a checkpoint's files, also of one that lacks some of them; the index is last."""
    entries = _gfile.listdir(directory) if _gfile.isdir(directory) else []
    data = [e for e in entries if e.startswith(name) and _DATA_SUFFIX.fullmatch(e[len(name) :])]
    return [*sorted(data), *(e for e in (f"{name}{STATE_SUFFIX}", f"{name}.index") if e in entries)]


def _read_back(prefix: str) -> None:
    """Read a checkpoint whole, which compares its checksums; raises TensorFlow's error if a tensor is not there."""
    reader = tf.train.NewCheckpointReader(prefix)
    for key in reader.get_variable_to_shape_map():
        reader.get_tensor(key)
    try:
        read_state(prefix + STATE_SUFFIX)
    except ValueError as error:
        raise tf.errors.DataLossError(None, None, str(error)) from error
