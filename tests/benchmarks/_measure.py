"""Repeat measurements in alternation, and print medians, spreads and ratios in one table."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from typing import Callable


def time_calls(call: Callable[[], object], num_calls: int) -> float:
    """Seconds that one call takes, on average over `num_calls`."""
    start = time.perf_counter()
    for _ in range(num_calls):
        call()
    return (time.perf_counter() - start) / num_calls


def measure(candidates: dict[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """
    Run every candidate once a round, for some rounds, so that what the machine does else hits all alike.

    Args:
        candidates: name -> a function that measures once and returns the figure.
        repetitions: number of rounds; a round before them is thrown away.

    Returns:
        name -> figures, one a round.
    """
    figures: dict[str, list[float]] = {name: [] for name in candidates}
    for repetition in range(repetitions + 1):
        for name, run_once in candidates.items():
            figure = run_once()
            if repetition:
                figures[name].append(figure)
    return figures


def print_table(title: str, unit: str, figures: dict[str, list[float]], base: str) -> None:
    """Print median, spread and the ratio to `base` (median of the ratios of each round)."""
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
    """Versions and number of cores."""
    from tensorpack_lite.compat import tensorflow

    return f"TF {tensorflow.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores"


def import_tensorpack() -> object:
    """Import the tensorpack checkout that TENSORPACK_CHECKOUT names; None if it names none."""
    checkout = os.environ.get("TENSORPACK_CHECKOUT")
    if not checkout:
        return None
    sys.path.insert(0, checkout)
    import tensorpack

    return tensorpack
