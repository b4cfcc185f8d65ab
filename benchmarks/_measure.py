"""Repeat measurements in turn, and print a table of medians, ranges and ratios."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from typing import Callable


def time_calls(call: Callable[[], object], num_calls: int) -> float:
    """Return the average duration of a call in seconds."""
    start = time.perf_counter()
    for _ in range(num_calls):
        call()
    return (time.perf_counter() - start) / num_calls


def measure(candidates: dict[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """
    Run every candidate once per round, so that other load on the machine affects all of them alike.

    Args:
        candidates: name -> a function that measures once and returns the result.
        repetitions: number of rounds, after one round whose results are discarded.

    Returns:
        name -> results, one per round.
    """
    figures: dict[str, list[float]] = {name: [] for name in candidates}
    for repetition in range(repetitions + 1):
        for name, run_once in candidates.items():
            figure = run_once()
            if repetition:
                figures[name].append(figure)
    return figures


def print_table(title: str, unit: str, figures: dict[str, list[float]], base: str) -> None:
    """Print the median, the range, and the median over rounds of the ratio to `base`."""
    print(f"\n{title}  [{machine()}]")
    width = max(map(len, figures))
    print(f"{'':{width}}  {'median':>10} {'min':>10} {'max':>10}  {unit:<10} x {base}")
    for name, values in figures.items():
        ratio = statistics.median(value / other for value, other in zip(values, figures[base]))
        print(
            f"{name:{width}}  {statistics.median(values):10.1f} {min(values):10.1f} {max(values):10.1f}  "
            f"{'':<10} {ratio:5.2f}"
        )


def machine() -> str:
    """Return the versions and the number of cores."""
    from tensorpack_lite.compat import tensorflow

    return f"TF {tensorflow.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"


def import_tensorpack() -> object:
    """Import tensorpack from the directory in TENSORPACK_CHECKOUT. Return None if the variable is not set."""
    checkout = os.environ.get("TENSORPACK_CHECKOUT")
    if not checkout:
        return None
    sys.path.insert(0, checkout)
    import tensorpack

    return tensorpack
