"""
The files that a training writes to the logger's directory, and their removal.

Here are all names that the library uses in that directory. A name that other programs also use, such as `report.html`,
counts only if the file begins like ours. Whatever is not listed belongs to the user and stays, and so do symbolic links.
`tests/utils/test_training_files.py` compares this list with what training runs write.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime
from typing import Iterator, NamedTuple, Pattern, Sequence

from .naming import list_names

_HEAD_BYTES = 1 << 16
_STAMP = r"\d{4}-\d{6}"
_PART = r"(?:data-\d+-of-\d+|index|meta|state|end)"  # the files of a checkpoint, after its name and a dot
_BACKUP = rf"(?:\.{_STAMP}|\.before-resume|\.tmp)?"


class _Kind(NamedTuple):
    """A kind of file: the pattern of its name, and that of its first bytes."""

    name: Pattern[str]
    head: Pattern[bytes]


def _kind(name: str, head: bytes = b"") -> _Kind:
    return _Kind(re.compile(name), re.compile(head, re.DOTALL))


_CHECKPOINT = _kind("checkpoint", rb'model_checkpoint_path: "(?:[^"\n]*/)?model-\d+"')
# A directory with one of these files, or with `checkpoint`, is that of a training.
_MARKS = (
    _kind(
        rf"log\.log{_BACKUP}", rb"(?:\x1b\[\d+m)*\[\d{4} \d\d:\d\d:\d\d(?: @|\] (?:Argv: |Deleted the training in ))|\Z"
    ),
    _kind(rf"manifest\.json{_BACKUP}", rb'\{\s*"format": \d'),
    _kind(rf"model-\d+\.{_PART}"),
    _kind(r"training\.lock", rb'\{"host": |\Z'),
)
_RANK_LOG = _kind(r"log-rank\d+\.log")
_FILES = (
    _kind(r"\.checkpoint\.tmp"),
    _kind(rf"graph-{_STAMP}\.meta(?:\.tmp[0-9a-f]+)?"),
    _kind(rf"stats\.json{_BACKUP}", rb'\[(?:\{[^{}]*"global_step"|\])'),
    _kind(rf"stats\.csv{_BACKUP}", rb"epoch_num,global_step"),
    _kind(r"model\.json(?:\.tmp)?", rb'\{\s*"format": \d+,\s*"head": \[\s*"layer"'),
    _kind(r"notes\.jsonl", rb'\{"kind": '),
    _kind(r"report\.html(?:\.tmp)?", rb"<!DOCTYPE html>.* - training report</title>"),
    _kind(r"DumpTensor-\d+\.npz"),
    _kind(r"runmetadata-\d+\.pb"),
)
# Other programs write files with these names and contents, too, so they count only beside one of _MARKS.
_COMMON = (
    _kind(r"events\.out\.tfevents\..+"),
    _kind(rf"gpu-error-{_STAMP}\.txt"),
    _kind(r"find-lr\.png"),
    _kind(rf"hang-{_STAMP}\.txt"),
    _kind(r"chrome-trace-\d+\.json"),
)
_TEXT, _NUMBER = rb'"(?:[^"\\]|\\.)*"', rb"-?(?:Infinity|\d[\d.e+-]*)"
_AT_STEP = rb'"step": \d+, "value": ' + _NUMBER + rb"\}"
_ONE = rb'\{"stat": ' + _TEXT + rb", " + _AT_STEP + rb"\Z"
_SEVERAL = rb'\{"stat": ' + _TEXT + rb', "kept": \[(?:\{' + _AT_STEP + rb'(?:, )?)*\](?:, "unlisted": \[[\d, ]*\])?\}\Z'
_RECORD_NAME = r"\.(.+)\.json\.tmp|(.+)\.json"
# The records of MinSaver, MaxSaver and TopKSaver: what follows the record's name in the names of the copies next to it.
_RECORDS = {_kind(_RECORD_NAME, _ONE): "", _kind(_RECORD_NAME, _SEVERAL): r"-\d+"}
_STEP_FILES = (
    _kind(r"batch\.npz"),
    _kind(r"step\.json"),
    _kind(r"report\.txt"),
    _CHECKPOINT,
    _kind(rf"model-\d+\.{_PART}"),
)
_SUBDIRECTORIES = {  # the pattern of the name: the files
    r"nan-\d+": _STEP_FILES,
    r"spike-\d+": _STEP_FILES,
    r"samples": (_kind(r"(?:first-batch|worst)\.npz(?:\.tmp)?"),),
    # checkpoints that are being written, also those of savers without a record yet
    r"\.saving": (_kind(rf".+\.{_PART}(?:\.tempstate\d+)?"), _kind(r"moving(?:\.tmp)?"), *_RECORDS),
}
# Other ranks and the launcher may have opened them before the chief starts.
_BESIDE = re.compile(r"(?:log-)?rank-?\d+\.log")


def is_occupied(directory: str) -> bool:
    """Return whether there are files in a directory, other than hidden ones and the logs of other ranks."""
    if not os.path.isdir(directory):
        return False
    return any(not name.startswith(".") and not _BESIDE.fullmatch(name) for name in os.listdir(directory))


def _is_training(directory: str) -> bool:
    """Return whether a training has written to a directory, by its log, manifest or checkpoints."""
    return any(_is_one_of((*_MARKS, _CHECKPOINT), entry) for entry in _entries(directory))


def check_replaceable(directory: str, action: str) -> None:
    """
    Check that a directory may be deleted or renamed.

    Args:
        directory: an existing directory.
        action: "d" or "b".

    Raises:
        OSError: it is, or contains, the current directory or the home directory; or the action is "d" and no training has
            written there.
    """
    verb = "deleted" if action == "d" else "renamed"
    for name, protected in (("current", _current_directory()), ("home", os.path.expanduser("~"))):
        for number, parent in enumerate(_with_parents(protected)):
            if os.path.samefile(parent, directory):
                raise OSError(
                    f"set_logger_dir: '{directory}' {'contains' if number else 'is'} the {name} directory, so it is not {verb} "
                    f"(action '{action}'). Choose a directory that only this training uses, such as 'train_log/mnist'."
                )
    if action == "d" and not _is_training(directory):
        raise OSError(
            f"set_logger_dir: '{directory}' has no log, manifest or checkpoint of a training, so its files are not deleted "
            f"(action 'd'): {list_names(_kept_names(directory), 10)}. Choose another directory, or delete the files yourself."
        )


def remove_training(directory: str, may_remove_rank_logs: bool = True) -> list[str]:
    """
    Delete the files that training runs have written to a directory. All others stay, and the directory, too.

    The files that show that a training was there are deleted last, so an interrupted call can be repeated.

    Args:
        directory: that of a training.
        may_remove_rank_logs: whether the logs of other ranks are deleted. They may have been opened for the next training.

    Returns:
        The names of what stays, sorted; directories end with a slash.

    Raises:
        OSError: a file cannot be deleted.
    """
    entries = _entries(directory)
    common = _COMMON if any(_is_one_of(_MARKS, entry) for entry in entries) else ()
    _remove_files(directory, [*_copies(entries), *common])
    _remove_files(directory, [*_FILES, *_RECORDS, *((_RANK_LOG,) if may_remove_rank_logs else ())])
    for entry in entries:
        for pattern, files in _SUBDIRECTORIES.items():
            if re.fullmatch(pattern, entry.name) and entry.is_dir(follow_symlinks=False):
                _remove_files(entry.path, _listed_files(entry.path) if files is _STEP_FILES else ())
                _remove_files(entry.path, files)
                with suppress(OSError):  # it is not empty
                    os.rmdir(entry.path)
    _remove_files(directory, (*_MARKS, _CHECKPOINT))
    return _kept_names(directory)


def _kept_names(directory: str) -> list[str]:
    """Return the names in a directory, sorted, except for logs of ranks; directories end with a slash."""
    entries = (entry for entry in _entries(directory) if not _BESIDE.fullmatch(entry.name))
    return sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return list(entries)


def _with_parents(path: str) -> Iterator[str]:
    """Yield a directory and its parents, up to the root. Without a directory, yield nothing."""
    path = os.path.realpath(path) if os.path.isdir(path) else ""
    while path:
        yield path
        path = os.path.dirname(path) if path != os.path.dirname(path) else ""


def _current_directory() -> str:
    with suppress(FileNotFoundError):  # it has been removed
        return os.getcwd()
    return ""


def with_timestamp(stem: str) -> str:
    """Append the time to a path, as in `log1126-223036`, and a number if the result exists."""
    stamped = stem + datetime.now().strftime("%m%d-%H%M%S")
    candidate, number = stamped, 1
    while os.path.exists(candidate):
        candidate, number = f"{stamped}-{number}", number + 1
    return candidate


def make_beside(path: str) -> str:
    """Create a directory named `with_timestamp(path)`, never one that another process has created, and return it."""
    while True:
        candidate = with_timestamp(path)
        with suppress(FileExistsError):
            os.makedirs(candidate)
            return candidate


def _remove_files(directory: str, kinds: Sequence[_Kind]) -> None:
    for entry in _entries(directory):
        if _is_one_of(kinds, entry):
            with suppress(FileNotFoundError):
                os.remove(entry.path)


def _listed_files(directory: str) -> list[_Kind]:
    """Return the files that `report.txt` in a directory lists, such as pictures of the samples."""
    with suppress(OSError), open(os.path.join(directory, "report.txt"), encoding="utf-8", errors="replace") as file:
        names = re.search(r"^Files: (.+)$", file.read(_HEAD_BYTES), re.MULTILINE)
        return [_kind(re.escape(name)) for name in names.group(1).split(", ")] if names else []
    return []


def _is_one_of(kinds: Sequence[_Kind], entry: os.DirEntry[str]) -> bool:
    if not entry.is_file(follow_symlinks=False):
        return False
    return any(kind.name.fullmatch(entry.name) and _begins_with(kind.head, entry.path) for kind in kinds)


def _begins_with(head: Pattern[bytes], path: str) -> bool:
    if not head.pattern:
        return True
    with suppress(OSError), open(path, "rb") as file:
        return head.match(file.read(_HEAD_BYTES)) is not None
    return False  # a file that cannot be read stays


def _copies(entries: Sequence[os.DirEntry[str]]) -> Iterator[_Kind]:
    """Yield the kinds of files that belong to the records in a directory."""
    for entry in entries:
        for record, suffix in _RECORDS.items():
            if _is_one_of((record,), entry):
                match = re.fullmatch(_RECORD_NAME, entry.name)
                name = re.escape(match.group(1) or match.group(2)) if match else ""
                yield _kind(rf"{name}{suffix}\.{_PART}|\.{name}\.json\.tmp")
