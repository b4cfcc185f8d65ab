"""
A directory of checkpoints, each of which is complete or absent at any time.

A checkpoint `model-10` consists of `model-10.data-?????-of-?????`, `model-10.state` if a trainer saved it, and
`model-10.index`; at the end of its epoch, `model-10.end` is added. Readers ignore a checkpoint without an index. New
files are therefore written to a hidden subdirectory, read back, synced to the disk, and moved into place with the
index last. When a checkpoint is removed or replaced, its index is removed first. Then the file `checkpoint`,
TensorFlow's list of checkpoints, is replaced atomically.

While a checkpoint is replaced, the old files are removed before the new ones are moved. If the process is
killed in between, the new files are complete in the subdirectory, and the file `moving` there lists them: the
next start moves the rest.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Callable, Iterator, Mapping

from ..compat import tfv1 as tf
from ..utils import logger
from ..utils.errors import parsing
from ..utils.fs import flush_to_disk
from .checkpoint_reader import STATE_FILE, LiteralPath, read_checkpoint_state, reason_of
from .checkpoint_state import END_SUFFIX, STATE_SUFFIX, read_state

_gfile = tf.io.gfile
_JOURNAL = "moving"
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
        directory: the directory, on any file system that TensorFlow supports.
        who: the callback or function that uses the store, for error messages.

    Attributes:
        directory: as given.
        fsync: whether files and the directory are flushed to the disk before they are listed, so that a crash
            of the machine cannot damage them; True by default. If only the process is killed, files are
            complete without it.
    """

    fsync = True

    def __init__(self, directory: str, who: str) -> None:
        self.directory = directory
        self._who = who
        self._aside = self.path(".saving")
        self._kept: list[tuple[str, float]] = []  # (name, time of saving), the oldest first

    def path(self, name: str) -> str:
        """Return the path of a file, or the prefix of a checkpoint, in the directory."""
        return f"{self.directory.rstrip('/')}/{name}"

    def files(self, name: str) -> list[str]:
        """
        List the names of a checkpoint's files, the index last.

        Returns:
            Names relative to the directory; an empty list if the checkpoint does not exist.
        """
        files = _files_of(self.directory, name)
        return files if f"{name}.index" in files else []

    def save(self, name: str, write: Callable[[str], object], read_back: Callable[[str], object] | None = None) -> None:
        """
        Add or replace a checkpoint.

        Args:
            name: its name, e.g. "model-10".
            write: a function that writes a checkpoint with the given prefix.
            read_back: a function that reads the variables of the checkpoint with the given prefix, and raises
                TensorFlow's error if they are damaged. None means a reader that needs no session.

        Raises:
            OSError: the checkpoint could not be written or read back. The other checkpoints are not changed.
        """
        with self._disk_errors(name), self._directory_aside() as aside:
            prefix = f"{aside}/{name}"
            write(prefix)
            (read_back or _read_variables)(prefix)
            _read_state(prefix)
            self._move_into_place(name, [])

    def copy(self, name: str, copy_name: str, texts: Mapping[str, str] | None = None) -> None:
        """
        Copy a checkpoint, with its state, replacing an earlier copy.

        Args:
            name: its name.
            copy_name: the name of the copy.
            texts: `{file: content}` of small files to replace together with the copy.

        Raises:
            OSError: the checkpoint could not be copied or read back. An earlier copy is not changed.
        """
        with self._disk_errors(copy_name), self._directory_aside() as aside:
            for file in self.files(name):
                _gfile.copy(self.path(file), f"{aside}/{copy_name}{file[len(name) :]}")
            _read_variables(f"{aside}/{copy_name}")
            _read_state(f"{aside}/{copy_name}")
            texts = texts or {}
            for file, text in texts.items():
                _write_text(f"{aside}/{file}", text)
            self._move_into_place(copy_name, list(texts))

    def remove_leftovers(self, checkpoints: str, temporary: str) -> None:
        """
        Remove what a killed process left behind: the hidden subdirectory, temporary files, and incomplete checkpoints.

        A checkpoint that the process was replacing is moved into place first.

        Args:
            checkpoints: regular expression of the names of the caller's checkpoints. Their data and state
                files are removed if the index is missing.
            temporary: regular expression of the names of the caller's temporary files.

        Raises:
            OSError: a file cannot be removed.
        """
        self.finish_replacing()
        self._clear_aside()
        files = _gfile.listdir(self.directory) if _gfile.isdir(self.directory) else []
        for file in files:
            suffixes = "|".join([_DATA_SUFFIX.pattern, *map(re.escape, (STATE_SUFFIX, END_SUFFIX))])
            part = re.fullmatch(f"({checkpoints})({suffixes})", file)
            is_lone_part = part is not None and f"{part.group(1)}.index" not in files
            if is_lone_part or re.fullmatch(temporary, file):
                with self._disk_errors(file):
                    _gfile.remove(self.path(file))
                logger.info("%s: removed '%s', which a killed process left behind.", self._who, self.path(file))

    def finish_replacing(self) -> None:
        """
        Move the rest of a checkpoint into place that a killed process was replacing. Without one, do nothing.

        Raises:
            OSError: a file cannot be moved.
        """
        with self._disk_errors(self._aside):
            self._finish_moving()

    def adopt_listed(self) -> None:
        """Manage the checkpoints that an earlier training listed together with the new ones."""
        state = read_checkpoint_state(self.directory)
        if state is None:
            return
        times = list(state.all_model_checkpoint_timestamps)
        for position, prefix in enumerate(state.all_model_checkpoint_paths):
            path = PurePosixPath(prefix)
            if path.parent == PurePosixPath(self.directory) and self.files(path.name):
                self._kept.append((path.name, times[position] if position < len(times) else 0.0))

    def record(
        self, name: str, max_to_keep: int | None = None, keep_files: Callable[[str], bool] | None = None
    ) -> None:
        """
        List a checkpoint in `checkpoint` as the latest one, and remove the oldest ones.

        Args:
            name: its name.
            max_to_keep: maximum number of listed checkpoints. None or 0 means no limit.
            keep_files: `f(name) -> bool`, whether the files of a checkpoint stay when it leaves the list. None
                removes them.

        Raises:
            OSError: `checkpoint` could not be written. The old one is not changed, and nothing was removed.
        """
        kept = [entry for entry in self._kept if entry[0] != name]
        kept.append((name, time.time()))
        dropped = kept[:-max_to_keep] if max_to_keep else []
        self._kept = kept[len(dropped) :]
        state = tf.train.generate_checkpoint_state_proto(
            "/",  # so that names are relative, and the directory can be moved
            model_checkpoint_path=name,
            all_model_checkpoint_paths=[kept_name for kept_name, _ in self._kept],
            all_model_checkpoint_timestamps=[saved_at for _, saved_at in self._kept],
        )
        self.write_text(STATE_FILE, str(state))
        with self._disk_errors(STATE_FILE):
            for old_name, _ in dropped:
                if keep_files is None or not keep_files(old_name):
                    self._remove(old_name)

    def remove(self, name: str) -> None:
        """
        Remove a checkpoint's files, the index first.

        Raises:
            OSError: a file cannot be removed.
        """
        with self._disk_errors(name):
            self._remove(name)

    def latest(self) -> str | None:
        """Return the name of the checkpoint that is listed as the latest, or None."""
        state = read_checkpoint_state(self.directory)
        if state is None or not state.model_checkpoint_path:
            return None
        return PurePosixPath(state.model_checkpoint_path).name

    def write_text(self, file: str, text: str) -> None:
        """
        Replace a small file atomically.

        Raises:
            OSError: the file could not be written. The old one is not changed.
        """
        self.write_bytes(file, text.encode())

    def write_bytes(self, file: str, content: bytes) -> None:
        """Replace a small file, as `write_text` does."""
        temporary = self.path(f".{file}.tmp")
        with self._disk_errors(file):
            with _gfile.GFile(temporary, "wb") as stream:
                stream.write(content)
            self._sync(temporary)
            _gfile.rename(temporary, self.path(file), overwrite=True)
            self._sync_directory(self.directory)

    def read_bytes(self, file: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        if not _gfile.exists(self.path(file)):
            return None
        with _gfile.GFile(self.path(file), "rb") as stream:
            content: bytes = stream.read()
        return content

    def _move_into_place(self, name: str, more: list[str]) -> None:
        """Replace a checkpoint by the files in the subdirectory, and move more files after them."""
        files = [*_files_of(self._aside, name), *more]
        for file in files:
            self._sync(f"{self._aside}/{file}")
        # Without old files, the checkpoint is absent if the process is killed now.
        if not more and not _files_of(self.directory, name):
            self._move(files)
            return
        journal = f"{self._aside}/{_JOURNAL}"
        _write_text(f"{journal}.tmp", json.dumps({"name": name, "files": files}))
        self._sync(f"{journal}.tmp")
        _gfile.rename(f"{journal}.tmp", journal)
        self._sync_directory(self._aside)
        self._finish_moving()

    def _finish_moving(self) -> None:
        """Do, or continue after the process was killed, what the journal says. Without a journal, do nothing."""
        journal = f"{self._aside}/{_JOURNAL}"
        if not _gfile.exists(journal):
            return
        with parsing(journal, "a list of files to move", "Remove it."), _gfile.GFile(journal) as stream:
            record = json.loads(stream.read())
            name, files = record["name"], list(record["files"])
        waiting = [file for file in files if _gfile.exists(f"{self._aside}/{file}")]
        for file in reversed(_files_of(self.directory, name)):
            if file in waiting or file not in files:
                _gfile.remove(self.path(file))
        self._move(waiting)
        _gfile.remove(journal)

    def _move(self, files: list[str]) -> None:
        for file in files:
            _gfile.rename(f"{self._aside}/{file}", self.path(file), overwrite=True)
        self._sync_directory(self.directory)

    def _remove(self, name: str) -> None:
        for file in reversed(_files_of(self.directory, name)):
            _gfile.remove(self.path(file))

    @contextmanager
    def _directory_aside(self) -> Iterator[str]:
        if not _gfile.isdir(self.directory):
            raise FileNotFoundError(
                f"{self._who}: the checkpoint directory '{self.directory}' does not exist (any more). "
                "Nothing was saved. Create the directory again."
            )
        self._finish_moving()
        self._clear_aside()
        _gfile.makedirs(self._aside)
        try:
            yield self._aside
        finally:
            # With a journal, it failed while moving, and is finished later.
            if not _gfile.exists(f"{self._aside}/{_JOURNAL}"):
                self._clear_aside()

    def _clear_aside(self) -> None:
        try:
            if _gfile.exists(self._aside):
                _gfile.rmtree(self._aside)
        except tf.errors.OpError as error:
            logger.warning("%s: cannot remove '%s': %s", self._who, self._aside, error.message)

    def _sync(self, path: str) -> None:
        """Flush a local file to the disk. Otherwise, a crash of the machine may leave the moved file without its content."""
        if self.fsync and "://" not in path:
            flush_to_disk(path)

    def _sync_directory(self, directory: str) -> None:
        """Flush the names in a local directory to the disk. Only POSIX can open a directory."""
        if self.fsync and "://" not in directory and os.name == "posix":
            flush_to_disk(directory)

    @contextmanager
    def _disk_errors(self, name: str) -> Iterator[None]:
        """Turn TensorFlow's errors about files into an OSError that names the file being written."""
        try:
            yield
        except _NOT_ABOUT_FILES:
            raise
        except tf.errors.OpError as error:
            raise OSError(
                f"{self._who}: cannot write '{self.path(name)}': {reason_of(error)}. Earlier files are not changed. Check the "
                "free space of the disk and the permissions."
            ) from error


def _files_of(directory: str, name: str) -> list[str]:
    """List the files of a checkpoint, which may be incomplete, the index last."""
    entries = _gfile.listdir(directory) if _gfile.isdir(directory) else []
    data = [e for e in entries if e.startswith(name) and _DATA_SUFFIX.fullmatch(e[len(name) :])]
    names = [f"{name}{suffix}" for suffix in (END_SUFFIX, STATE_SUFFIX, ".index")]
    return [*sorted(data), *(name for name in names if name in entries)]


def _write_text(path: str, text: str) -> None:
    with _gfile.GFile(path, "w") as stream:
        stream.write(text)


def _read_variables(prefix: str) -> None:
    """Read all variables, which verifies their checksums. Raises TensorFlow's error if one is missing or damaged."""
    literal = LiteralPath(prefix)
    reader = tf.train.NewCheckpointReader(literal.path)
    for key in reader.get_variable_to_shape_map():
        reader.get_tensor(key)


def _read_state(prefix: str) -> None:
    try:
        read_state(prefix + STATE_SUFFIX)
    except ValueError as error:
        raise tf.errors.DataLossError(None, None, str(error)) from error
