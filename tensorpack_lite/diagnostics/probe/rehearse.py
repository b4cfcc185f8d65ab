"""A rehearsal of a script: a short training, one that resumes it, a prediction, and a table of the results."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, Sequence

from tabulate import tabulate

from ...utils.notes import write_note
from ...utils.own_rank import find_given_rank
from ...utils.utils import ENDLESS, humanize_time_delta
from .request import find_request, own_program, run_probe

_NUM_DATAPOINTS = 2  # of a validation


def rehearse(program: Sequence[str]) -> int:
    """
    Rehearse the training of a script, and print a table. The script's log and checkpoints go to a temporary directory.

    Args:
        program: the script or `-m module`, and its arguments.

    Returns:
        0; 1 if a part of the training has failed; 2 if the script has failed before, or does not train.
    """
    return _rehearse(program)[1]


def _rehearse(program: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """Print the table, and return the results of the training runs and the exit code."""
    with tempfile.TemporaryDirectory(prefix="tensorpack-lite-rehearse-") as folder:
        log = os.path.join(folder, "log")
        os.mkdir(log)
        first, code = _run(program, folder, log, {"checkpoint": None, "max_epoch": None})
        parts = [first]
        checkpoint = first["facts"].get("checkpoint")
        if code == 0 and checkpoint is not None:
            options = {"checkpoint": checkpoint["directory"], "max_epoch": first["facts"]["max_epoch"]}
            second, code = _run(program, folder, log, options)
            parts.append(second)
    if not first["rows"]:
        return parts, 2
    sys.stdout.write(f"{show_results(parts)}\n")
    sys.stdout.flush()
    return parts, 1 if code else 0


def rehearse_this_program() -> None:
    """
    Rehearse the script of this process before its training starts, print a table, and note it for the report.

    Nothing happens in the process of a rehearsal, and in ranks other than the first one.

    Raises:
        ValueError: this process runs no script, such as in a notebook.
        RuntimeError: the rehearsal has failed.
    """
    rank = find_given_rank()
    if find_request() is not None or (rank is not None and rank.rank > 0):
        return
    program = own_program()
    if not program:
        raise ValueError("TrainConfig: rehearse=True needs a script (expected a file, got an interactive session).")
    parts, code = _rehearse(program)
    if code:
        raise RuntimeError(
            "The rehearsal has failed, so training does not start. The error is above; rehearse=False leaves the rehearsal out."
        )
    text = " ".join(["All parts of the training have worked in a rehearsal.", *estimate(parts[0]["facts"])])
    rows = [row for part in parts for row in part["rows"]]
    write_note("rehearsal", text, parts=[{"part": name.strip(), "seconds": seconds} for name, seconds, _ in rows])


def _run(program: Sequence[str], folder: str, log: str, options: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Run the script, and return the results of its training with the exit code."""
    path = os.path.join(folder, "results.json")
    code = run_probe(
        "rehearse",
        program,
        {**options, "results": path},
        log_directory=log,
        is_quiet=True,
        consequence="",
        has_answered=lambda: os.path.exists(path),
    )
    if not os.path.exists(path):
        return {"rows": [], "facts": {}}, code
    with open(path, encoding="utf-8") as file:
        results: dict[str, Any] = json.load(file)
    os.remove(path)
    if code and not any(error for _, _, error in results["rows"]):
        results["rows"].append(["the script after its training", 0.0, "its error is above"])
    return results, code


def show_results(parts: Sequence[dict[str, Any]]) -> str:
    """
    Return the table of a rehearsal.

    Args:
        parts: the results of the first training, and of the resumed one if there was one.
    """
    rows = [row for part in parts for row in part["rows"]]
    shown = [[name, "works" if not error else "FAILED", f"{seconds:.2f}"] for name, seconds, error in rows]
    table = tabulate(
        shown,
        headers=["part", "result", "seconds"],
        colalign=("left", "left", "right"),
        disable_numparse=True,
    )
    errors = [f"{name}: {error}" for name, _, error in rows if error]
    facts = parts[0]["facts"]
    last = [] if errors else estimate(facts)
    if not errors and facts.get("checkpoint") is None:
        last.append("Not rehearsed: a resume, because no ModelSaver has saved a checkpoint.")
    return "\n".join([table, *errors, *last])


def estimate(facts: dict[str, Any]) -> list[str]:
    """Return sentences about the time, memory and disk of the full training; empty if it has not been measured."""
    if not facts.get("steps"):
        return []
    step = min(facts["steps"])
    training = step * facts["steps_per_epoch"]
    callbacks = 0.0
    for name, seconds in facts["callbacks"]:
        total = facts.get("validations", {}).get(name)
        callbacks += seconds * (max(1.0, total / _NUM_DATAPOINTS) if total else 1.0)
    epoch = training + callbacks
    sentences = [
        f"An epoch: {facts['steps_per_epoch']:,} steps of {step:.3g} s and callbacks, about {humanize_time_delta(epoch)}."
    ]
    epochs = facts["epochs"]
    if epochs < ENDLESS:
        sentences.append(f"The training: {epochs:,} epochs, about {humanize_time_delta(epochs * epoch)}.")
    sentences.append(f"Memory of this process: {facts['memory'] / 1e6:,.0f} MB at its peak.")
    checkpoint = facts.get("checkpoint")
    if checkpoint is not None:
        num = min(checkpoint["kept"], epochs)
        size = checkpoint["bytes"] / 1e6
        sentences.append(f"Disk: {num:,} checkpoints of {size:,.1f} MB, {num * size:,.0f} MB.")
    return sentences
