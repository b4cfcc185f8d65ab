"""The table of the stages of a pipeline: for people, and as JSON values for reports."""

from __future__ import annotations

from typing import Any, Sequence

from tabulate import tabulate

from ...report.stages import stage_table
from .pipeline_load import HERE, Part, StageWork


def make_rows(parts: Sequence[Part], num_steps: int, seconds: float) -> list[dict[str, Any]]:
    """
    Return the rows of the table, one for each stage.

    Args:
        parts: what each part did.
        num_steps: number of steps of the consumer.
        seconds: length of the period.

    Returns:
        Dicts of `stage`, `depth`, `process`, `workers`, `per_step` (datapoints for a step), `own_ms` and `cpu_ms` (time
        and CPU time for a datapoint; None if unknown), `waiting_in` and `waiting_out` (shares of the time of a worker, 0
        to 1), and `datapoints_per_s`.
    """
    return [_row(part, stage, num_steps, seconds) for part in parts for stage in part.stages]


def _row(part: Part, stage: StageWork, num_steps: int, seconds: float) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "depth": stage.depth,
        "process": "training" if part.kind == HERE else f"{part.kind} of {part.owner}",
        "workers": part.num_workers,
        "per_step": stage.count / num_steps,
        "own_ms": None if stage.wall is None else 1e3 * stage.wall,
        "cpu_ms": None if stage.cpu is None else 1e3 * stage.cpu,
        "waiting_in": stage.waited_in / part.num_workers / seconds,
        "waiting_out": stage.waited_out / part.num_workers / seconds,
        "datapoints_per_s": stage.count / seconds,
    }


def format_rows(rows: Sequence[dict[str, Any]], unit: str = "step") -> str:
    """
    Return the table as text.

    Args:
        rows: result of `make_rows`.
        unit: what the consumer counts.
    """
    head, lines = stage_table(rows, unit)
    return tabulate(lines, head, colalign=("left", "left", *["right"] * 6), disable_numparse=True)
