"""The sentence that says which rank the others wait for."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence

import numpy as np

from .speed_verdict import Facts, Verdict

__all__ = ["Slowest", "describe_slowest", "summarize"]

_MORE = 0.1  # of a step, that one rank takes longer than the others outside its graph


def summarize(facts: Facts, verdict: Verdict) -> Dict[str, Any]:
    """Return what the chief needs to know about a rank; JSON can represent it."""
    division = facts.division
    return {"outside": division.total - division.run, "total": division.total, "text": verdict.text}


class Slowest(NamedTuple):
    """
    The rank that the others wait for.

    Attributes:
        rank: its number.
        text: a sentence.
    """

    rank: int
    text: str


def describe_slowest(summaries: Sequence[Optional[Dict[str, Any]]]) -> Optional[Slowest]:
    """
    Find the rank that the others wait for.

    Ranks wait for each other inside the graph, so their steps take equally long. What a rank does outside its graph, waiting for
    data included, is known. If all take equally long there, it is not known which graph or network limits.

    Args:
        summaries: results of `summarize` in the order of ranks; None for a rank that has not measured anything.

    Returns:
        The rank; None if no rank takes longer than the others outside its graph, or too few ranks have measured.
    """
    outside = {rank: one["outside"] for rank, one in enumerate(summaries) if one is not None}
    if len(outside) < 2:
        return None
    rank = max(outside, key=lambda number: outside[number])
    of_others = float(np.median([seconds for number, seconds in outside.items() if number != rank]))
    slowest: Any = summaries[rank]
    if slowest["outside"] - of_others < _MORE * slowest["total"]:
        return None
    return Slowest(
        rank,
        f"the other ranks wait for rank {rank}, which spends {_ms(slowest['outside'])} of each step of {_ms(slowest['total'])} "
        f"outside its graph; the others spend {_ms(of_others)}. Rank {rank}: {slowest['text']}",
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
