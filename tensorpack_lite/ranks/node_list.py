"""SLURM's compressed lists of nodes and of tasks per node."""

from __future__ import annotations

import itertools
import re


def expand_node_list(text: str) -> list[str]:
    """
    Return the names in a list of nodes, in its order.

    Args:
        text: for example `a[1-3,7],b-[01-03]x,c`, as `scontrol show hostnames` reads it.
    """
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):  # a comma inside brackets separates numbers
        pieces = [_expand(piece) for piece in re.split(r"(\[[^\]]*\])", part)]
        names.extend("".join(name) for name in itertools.product(*pieces))
    return names


def expand_counts(text: str) -> list[int]:
    """Return the numbers of tasks on each node, such as [2, 2, 1] for `2(x2),1`."""
    pairs = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(count) for count, times in pairs for _ in range(int(times or 1))]


def _expand(piece: str) -> list[str]:
    if not piece.startswith("["):
        return [piece]
    found = []
    for numbers in piece[1:-1].split(","):
        first, _, last = numbers.partition("-")
        found += [f"{i:0{len(first)}d}" for i in range(int(first), int(last or first) + 1)]
    return found
