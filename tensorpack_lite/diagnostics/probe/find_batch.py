"""
A batch size for a script: its batch is doubled until memory or the gain ends.

In:  a script, which runs in a separate process for each batch.
Out: a table, a proposal, and what it means for the learning rate.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Sequence

from tabulate import tabulate

from ...utils.checks import check_count, check_positive
from ...utils.memory import available_memory
from .request import run_probe


@dataclass(frozen=True)
class Measured:
    """
    The result of a few steps with one batch.

    Attributes:
        batch: the number of samples that a step of one tower takes.
        step: the seconds of a step, the median; None if no step was done.
        memory: the peak of the process, in bytes; on a GPU, that of TensorFlow's allocator on the first one.
        memory_before: its memory before the first step, in bytes.
        is_on_gpu: whether the memory is that of a GPU.
        is_too_large: whether memory has run out.
        has_too_few: whether the data has fewer samples than the batch.
    """

    batch: int
    step: float | None = None
    memory: int = 0
    memory_before: int = 0
    is_on_gpu: bool = False
    is_too_large: bool = False
    has_too_few: bool = False

    @property
    def speed(self) -> float:
        """Samples per second; 0 if no step was done."""
        return self.batch / self.step if self.step else 0.0

    @property
    def memory_of_twice(self) -> int:
        """An estimate of the peak with twice the batch: what the steps have added counts twice."""
        return self.memory_before + 2 * (self.memory - self.memory_before)


@dataclass
class Search:
    """
    The results of all batches.

    Attributes:
        tried: the results, in order of their batches. Empty if the first batch cannot be measured.
        best: the largest batch that was worth it; None if there is none.
        end: why no larger batch was measured.
    """

    tried: List[Measured] = field(default_factory=list)
    best: Optional[Measured] = None
    end: str = ""


def find_batch(program: Sequence[str], num_steps: int = 20, gain: float = 0.1, memory: float = 0.0) -> int:
    """
    Measure the steps of a script with its batch, twice its batch and so on, and print a table with a proposal.

    Args:
        program: the script or `-m module`, and its arguments.
        num_steps: the number of steps with each batch.
        gain: the search ends when twice the batch gives less than `1 + gain` times the samples per second.
        memory: the megabytes that the process, or TensorFlow on the first GPU, may use; 0 means what is free now, and on a GPU as
            much as it has.

    Returns:
        0; 1 if the batch of the script does not fit into memory; 2 if the script has failed or cannot be measured.

    Raises:
        ValueError: a number is too small.
    """
    check_count("find-batch: --steps", num_steps, 1)
    check_positive("find-batch: --gain", gain)
    if memory < 0:
        raise ValueError(f"find-batch: --memory is negative (expected megabytes, or 0, got {memory}).")
    with tempfile.TemporaryDirectory(prefix="tensorpack-lite-find-batch-") as folder:
        path = os.path.join(folder, "results.json")

        def measure(factor: int) -> Measured | None:
            options = {"results": path, "factor": factor, "num_steps": num_steps}
            if run_probe("find-batch", program, options, is_quiet=True, consequence=""):
                return None
            with open(path, encoding="utf-8") as file:
                return Measured(**json.load(file))

        search = double(measure, gain, int(memory * 1e6))
    if not search.tried:
        return 2
    sys.stdout.write(f"{show_batches(search)}\n")
    sys.stdout.flush()
    return 0 if search.best else 1


def double(measure: Callable[[int], Optional[Measured]], gain: float, limit: int) -> Search:
    """
    Measure batches until memory, the data or the gain ends.

    Args:
        measure: takes the factor of the batch, 1, 2, 4 and so on, and returns None if it cannot be measured.
        gain: see `find_batch`.
        limit: the bytes that may be used; 0 means the main memory that is free now. On a GPU, TensorFlow's error ends the search.
    """
    search = Search()
    while not search.end:
        factor = 2 ** len(search.tried)
        result = measure(factor)
        if result is None:
            search.end = f"The script fails with {factor} times its batch; its error is above."
            break
        search.tried.append(result)
        if result.is_too_large:
            search.end = f"A batch of {result.batch:,} does not fit into memory."
        elif result.has_too_few:
            search.end = f"The data has fewer than {result.batch:,} samples."
        elif search.best is not None and result.speed < (1 + gain) * search.best.speed:
            search.end = f"A batch of {result.batch:,} does not give {gain:.0%} more samples per second than {search.best.batch:,}."
        else:
            search.best = result
            most = limit or (math.inf if result.is_on_gpu else available_memory())
            if result.memory_of_twice > most:
                needed = f"{result.memory_of_twice / 1e6:,.0f} MB"
                search.end = f"A batch of {2 * result.batch:,} would need about {needed} (limit {most / 1e6:,.0f} MB)."
    return search


def show_batches(search: Search) -> str:
    """Return the table, the proposal and the rules for the learning rate."""
    memory = "peak memory of GPU 0, MB" if search.tried[0].is_on_gpu else "peak memory, MB"
    head = ["batch", "samples/s", "ms per step", memory]
    rows = [_row(result) for result in search.tried]
    table = tabulate(rows, headers=head, colalign=("right",) * 4, disable_numparse=True)
    lines = [table, search.end]
    first, best = search.tried[0], search.best
    if best is first:
        lines.append(f"Keep the batch of {first.batch:,}, and the learning rate.")
    elif best is not None:
        factor = best.batch // first.batch
        lines += [
            f"Proposed batch: {best.batch:,}, with {best.speed / first.speed:.2g} times the samples per second of {first.batch:,}.",
            f"Learning rate: with SGD and momentum, multiply it by {factor}, and warm up during the first epochs; with Adam and "
            f"others that divide by the size of gradients, multiply it by sqrt({factor}) = {math.sqrt(factor):.3g}. Check it with "
            "tensorpack-lite find-lr.",
            f"Steps: an epoch has 1/{factor} of them. Divide by {factor} what the script counts in steps, such as steps_per_epoch "
            "and the lengths of schedules.",
        ]
    return "\n".join(lines)


def _row(result: Measured) -> list[str]:
    if result.is_too_large or result.has_too_few or not result.step:
        return [f"{result.batch:,}", "out of memory" if result.is_too_large else "too few samples", "-", "-"]
    speed = f"{result.speed:,.0f}" if result.speed >= 100 else f"{result.speed:.3g}"
    return [f"{result.batch:,}", speed, f"{result.step * 1e3:,.3g}", f"{result.memory / 1e6:,.0f}"]
