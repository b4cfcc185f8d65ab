"""The summary of a model as text, and as JSON for the report."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate

from .summary import Summary

_HEAD = ("layer", "output shape", "parameters", "FLOPs", "kept for gradients")


def show_summary(summary: Summary) -> str:
    """Return a table of the layers, and lines with the sums and the memory."""
    rows = [_row(layer) for layer in summary.layers]
    rows.append(["total", "", f"{summary.parameters:,}", show_number(summary.flops), show_bytes(summary.kept)])
    table = tabulate(rows, headers=_HEAD, colalign=("left", "left", "right", "right", "right"), disable_numparse=True)
    return "\n".join([table, *sentences(summary)])


def sentences(summary: Summary) -> list[str]:
    """Return the lines below the table."""
    size, other_bytes = summary.parameter_bytes, summary.other_bytes
    fixed = 2 * size + other_bytes
    lines = [
        "FLOPs and bytes are per sample; a multiplication and an addition are two FLOPs.",
        f"Inference: {show_bytes(size)} of parameters, and {show_bytes(summary.inference_bytes)} per sample.",
        f"Training: {show_bytes(fixed)} (parameters, gradients, and {show_bytes(other_bytes)} of other variables, such as those of "
        f"the optimizer), and {show_bytes(summary.kept)} per sample.",
    ]
    if summary.batch and summary.kept is not None:
        lines.append(
            f"With batches of {summary.batch}, training needs about {show_bytes(fixed + summary.batch * summary.kept)} on each "
            "device, without buffers of TensorFlow."
        )
    return lines


def as_json(summary: Summary) -> dict[str, Any]:
    """Return the content of `model.json`."""
    return {
        "format": 1,
        "head": list(_HEAD),
        "rows": [_row(layer) for layer in summary.layers],
        "text": sentences(summary),
        "parameters": summary.parameters,
        "flops": summary.flops,
    }


def _row(layer: Any) -> list[str]:
    shape = "" if layer.shape is None else str(["?" if size is None else size for size in layer.shape]).replace("'", "")
    return [layer.name, shape, f"{layer.parameters:,}", show_number(layer.flops), show_bytes(layer.kept)]


def show_number(number: int | None) -> str:
    """Return a number with three digits and a unit, e.g. "1.23 M"; "?" for None."""
    return _with_unit(number, ("", "k", "M", "G", "T", "P"))


def show_bytes(number: int | None) -> str:
    """Return a number of bytes with three digits and a unit, e.g. "1.23 MB"; "?" for None."""
    return _with_unit(number, ("B", "kB", "MB", "GB", "TB", "PB"))


def _with_unit(number: int | None, units: tuple[str, ...]) -> str:
    if number is None:
        return "?"
    value, index = float(number), 0
    while value >= 999.5 and index < len(units) - 1:
        value, index = value / 1000, index + 1
    return f"{value:.3g} {units[index]}".rstrip()
