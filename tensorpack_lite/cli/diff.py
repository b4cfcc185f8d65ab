"""The command `diff`: finds what differs between two training runs, and from which step on their curves differ."""

from __future__ import annotations

import argparse
import json
import os
import sys

from ..diagnostics.diff.run_diff import Run, Section, compare
from ..diagnostics.diff.run_verdict import verdict
from ..utils.errors import parsing
from ..utils.hyperparams import without_directory
from ..utils.json_rows import read_json_rows
from ..utils.manifest_file import FILENAME, read_manifest
from .checkpoints import read_variables


def diff(args: argparse.Namespace) -> int:
    """Print the comparison. Return 1 if more than the machine and the time differ."""
    sentence, sections = compare_runs(args.first, args.second)
    if args.json:
        content = {"verdict": sentence, "sections": {section.title: vars(section) for section in sections}}
        sys.stdout.write(json.dumps(content, indent=1) + "\n")
    else:
        width = max(len(section.title) for section in sections) if sections else 0
        sys.stdout.write(f"{sentence}\n\n")
        for section in sections:
            sys.stdout.write(f"{section.title:{width}}  {section.state}\n")
            sys.stdout.writelines(f"    {line}\n" for line in section.differences)
    return 1 if any(section.differences for section in sections if section.title != "machine") else 0


def compare_runs(first: str, second: str) -> tuple[str, list[Section]]:
    """
    Compare two training runs.

    Args:
        first, second: their directories, or checkpoints.

    Returns:
        The verdict, and the sections.

    Raises:
        FileNotFoundError: a directory has no manifest.
        DamagedFileError: a manifest or `stats.json` is damaged.
    """
    a, b = read_run(first), read_run(second)
    with parsing(f"the manifest or the statistics of {first} or {second}", "those of a training"):
        sections = compare(a, b)
        return verdict(sections, a, b), sections


def read_run(path: str) -> Run:
    """
    Read what is compared of a training.

    Args:
        path: its directory, or a checkpoint.

    Raises:
        FileNotFoundError: the directory has no manifest.
        DamagedFileError: the manifest or `stats.json` is damaged.
    """
    if not os.path.isdir(path):
        variables = {name: [value.dtype.name, list(value.shape)] for name, value in read_variables(path).items()}
        return Run(path, {"graph": {"variables": variables}})
    manifest = os.path.join(path, FILENAME)
    if not os.path.isfile(manifest):
        raise FileNotFoundError(
            f"{path} has no {FILENAME}. ManifestWriter, one of the default callbacks, writes it when a training starts. "
            "To compare only variables, name a checkpoint: log/model-100."
        )
    stats = os.path.join(path, "stats.json")
    content = read_manifest(manifest)
    return Run(
        path,
        {**without_directory(content, str(content.get("directory"))), "directory": content.get("directory")},
        read_json_rows(stats) if os.path.isfile(stats) else None,
    )
