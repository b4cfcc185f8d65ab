"""Comparison of the code of two training runs, for the command `diff`. The name of the log directory is not code."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, Iterator

from .json_differences import describe_pair, differences

_LITERAL = re.compile(r"""(["'])([^"'\n]*)\1""")
_ABOUT_LOGS = re.compile(r"log(ger)?_?-?dir|auto_set_dir", re.IGNORECASE)
_PLACEHOLDER = "<log directory>"


def compare_code(a: dict[str, Any], b: dict[str, Any], directories: tuple[str, str]) -> tuple[list[str], str, str]:
    """
    Compare the `code` of two manifests.

    Args:
        a, b: the parts.
        directories: the log directories of the training runs.

    Returns:
        The lines of the differences; the cause in a few words, if it is a single line; and a note if the code is the same
        except for the name of the log directory.
    """
    arguments = [_without_directory(code.get("arguments") or [], path) for code, path in zip((a, b), directories)]
    found = list(differences(arguments[0], arguments[1], "arguments"))
    # a patch repeats what the copies show, so it is compared only if they are equal
    patches = [{"patch": (code.get("git") or {}).get("patch") or ""} for code in (a, b)]
    sources = [_sources(a), _sources(b)]
    changed = list(_diffs_of_files(sources[0], sources[1], directories))
    if not changed and sources[0] == sources[1]:
        changed = list(_diffs_of_files(patches[0], patches[1], directories))
    cause = ""
    for name, lines in changed:
        removed, added = _changed_lines(lines[2:], directories)
        found += [f"{name}: {len(added)} lines added, {len(removed)} removed", *lines]
        if len(changed) == len(added) == len(removed) == 1 and len(found) == 1 + len(lines):
            cause = f"code differs ({describe_pair(f'{name}:', removed[0], added[0])})"
    commits = [(code.get("git") or {}).get("commit") for code in (a, b)]
    if commits[0] != commits[1] and None not in commits:
        found.append(describe_pair("commit", *commits))
    is_same = sources[0] == sources[1] and a.get("arguments") == b.get("arguments")
    return found, cause, "" if found or is_same else "except for the log directory"


def _sources(code: dict[str, Any]) -> dict[str, str]:
    """Return the copies of the files, and the digests of those without a copy. The script may have any name."""
    script = os.path.basename(code.get("script") or "")
    files = {**code.get("files", {}), **code.get("omitted", {})}
    return {"script" if name == script else name: text for name, text in files.items()}


def _diffs_of_files(
    a: dict[str, str], b: dict[str, str], directories: tuple[str, str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the lines of the unified diff of each file that differs in more than the log directory."""
    for name in sorted(set(a) | set(b)):
        before, after = ((files.get(name) or "").splitlines() for files in (a, b))
        if _neutral(before, directories[0]) == _neutral(after, directories[1]):
            continue
        lines = list(difflib.unified_diff(before, after, f"A/{name}", f"B/{name}", lineterm=""))
        if lines:
            yield name, lines


def _changed_lines(lines: list[str], directories: tuple[str, str]) -> list[list[str]]:
    """Return the removed and the added lines of a unified diff, without those that differ only in the log directory."""
    changed = [[line[1:].strip() for line in lines if line.startswith(sign)] for sign in "-+"]
    neutral = [_neutral(some, directory) for some, directory in zip(changed, directories)]
    common = set(neutral[0]) & set(neutral[1])
    return [[line for line, text in zip(*pair) if text not in common] for pair in zip(changed, neutral)]


def _neutral(lines: list[str], directory: str) -> list[str]:
    """Return lines of code with a placeholder for each string that names the log directory."""

    def replace(match: Any) -> str:
        is_about_logs = _ABOUT_LOGS.search(match.string) is not None
        return _PLACEHOLDER if _names(match.group(2), directory, is_about_logs) else match.group(0)

    return [_LITERAL.sub(replace, line) for line in lines]


def _without_directory(arguments: list[str], directory: str) -> list[str]:
    """Return the arguments of a script with a placeholder for each that names the log directory."""
    neutral = []
    for before, argument in zip(["", *arguments], arguments):
        option, sign, value = argument.rpartition("=")
        is_about_logs = _ABOUT_LOGS.search(option or before) is not None
        neutral.append(option + sign + _PLACEHOLDER if _names(value, directory, is_about_logs) else argument)
    return neutral


def _names(text: str, directory: str, is_about_logs: bool) -> bool:
    """Return whether a string is the log directory or its end. A single name may also be something else, such as "adam"."""
    path = os.path.normpath(text) if text else ""
    return (
        (is_about_logs or os.sep in path)
        and f"{os.sep}{directory}".endswith(f"{os.sep}{path.lstrip(os.sep)}")
        and path != ""
    )
