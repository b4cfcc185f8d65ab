"""The table of the stages of a pipeline, in the same words and units in the log and in the report."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple


def stage_table(rows: Sequence[dict[str, Any]], unit: str = "step") -> Tuple[List[str], List[List[str]]]:
    """
    Return the titles of the columns and the cells of each row.

    Args:
        rows: a dict for each stage, as `diagnostics/speed/stage_rows.py::make_rows` returns them.
        unit: what the consumer counts.

    Raises:
        KeyError, TypeError, ValueError: a value is missing or not a number.
    """
    head = ["stage", "workers", f"per {unit}", "own ms", "CPU ms", "no input", "no room", "per s"]
    return head, [_cells(row) for row in rows]


def _cells(row: dict[str, Any]) -> List[str]:
    is_here = row["process"] == "training"
    return [
        ". " * row["depth"] + row["stage"],
        "" if is_here else f"{row['workers']} {row['process'].split(' of ')[0]}",
        f"{row['per_step']:.4g}",
        _milliseconds(row["own_ms"]),
        _milliseconds(row["cpu_ms"]),
        _share(row["waiting_in"]),
        _share(row["waiting_out"]),
        f"{row['datapoints_per_s']:,.0f}",
    ]


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.005 else ""
