"""The sentences that say what limits the speed of a training, and which rank the others wait for."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .advice_text import describe_advice, describe_full_cores, describe_part, format_ms
from .bottleneck import Load, advise
from .step_division import Division

VARIES = "varies"
"""The limit of a verdict that says that the speed varies too much."""

CALLBACKS = "callbacks"
"""The limit of a verdict that says that callbacks take much of each step."""

GRAPH = "graph"
"""The limit of a verdict that says that the graph takes nearly all of a step."""

_CALLBACKS = 0.2
_MAX_NAMED = 3  # callbacks
_NAMED = 0.1  # of the time of all callbacks in a step
_BETWEEN_EPOCHS = 0.25
_VARIES = 2.0
_MORE = 0.1  # of a step, that one rank takes longer than the others outside its graph
_DOCS = "see docs/speed.md"


class Facts(NamedTuple):
    """
    Measurements of a training. Times are in seconds.

    Attributes:
        division: of the mean step.
        load: of the pipeline; None if there is none.
        is_graph_seen: whether `load.graph` was measured in steps that did not wait, or is an upper limit.
        quartiles: of the time of a step.
        input_name: class of the input.
        is_fed: whether the training thread reads the data, as with FeedInput.
        epoch: seconds of the steps of an epoch; 0 if no epoch has ended.
        between: seconds of each callback between two epochs.
        calls: seconds of each method of a callback in a step, the largest first; None if they were not measured.
        is_alone: whether the training has one process. Otherwise, the graph may wait for another rank.
    """

    division: Division
    load: Optional[Load]
    is_graph_seen: bool
    quartiles: Tuple[float, float]
    input_name: str
    is_fed: bool = False
    epoch: float = 0.0
    between: Sequence[Tuple[str, float]] = ()
    calls: Optional[Sequence[Tuple[str, float]]] = None
    is_alone: bool = True


class Verdict(NamedTuple):
    """
    The limit of the speed.

    Attributes:
        limit: a word for the kind of limit, and the stage, if any. A verdict with another limit is worth saying.
        text: sentences.
        shows_stages: whether something is to be won in the pipeline, so that its stages are worth a table.
        is_worth_a_line: whether people should read it in the log.
    """

    limit: str
    text: str
    shows_stages: bool = False
    is_worth_a_line: bool = True


def judge(facts: Facts) -> Verdict:
    """Return the verdict on a training."""
    first, third = facts.quartiles
    division = facts.division
    if third > _VARIES * first:
        rates = f"{1 / third:.3g} to {1 / first:.3g} steps/s"
        text = f"the time of a step varies too much to say what limits it ({rates}). Other programs? A network disk?"
        return Verdict(VARIES, text)
    if facts.load is not None and division.waiting is not None and division.waits:
        if facts.is_fed:
            return _judge_fed(division.waiting, division.total)
        return _judge_data(facts.load, division.waiting / division.total, facts.is_graph_seen)
    # Only a training that spends much time outside of its runs is worth measuring its callbacks.
    in_callbacks = division.outside if facts.calls is None else sum(seconds for _, seconds in facts.calls)
    if in_callbacks >= _CALLBACKS * division.total:
        share = f"{in_callbacks / division.total:.0%} of a step of {format_ms(division.total)}"
        advice = "Call them less often, with PeriodicTrigger, PeriodicCallback or PeriodicRunHooks."
        return Verdict(CALLBACKS, f"callbacks take {share}{_name_calls(facts.calls or ())}. {advice}")
    between = sum(seconds for _, seconds in facts.between)
    if between > _BETWEEN_EPOCHS * (facts.epoch + between):
        return _judge_between_epochs(facts, between)
    if division.waiting is None:
        text = f"with {facts.input_name}, it is not known how long steps wait for data."
        return Verdict("unknown", text, is_worth_a_line=False)
    ready = f"data is ready {1 - division.waiting / division.total:.0%} of the time"
    if facts.is_alone:
        text = f"the graph limits ({ready}). A faster pipeline will not make the training faster; {_DOCS}."
    else:
        text = f"the graph limits, or another rank for which it waits ({ready} on this rank); {_DOCS}."
    return Verdict(GRAPH, text)


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
    outside = {rank: summary["outside"] for rank, summary in enumerate(summaries) if summary is not None}
    if len(outside) < 2:
        return None
    rank = max(outside, key=lambda number: outside[number])
    of_others = float(np.median([seconds for number, seconds in outside.items() if number != rank]))
    slowest: Any = summaries[rank]
    if slowest["outside"] - of_others < _MORE * slowest["total"]:
        return None
    spends = f"{format_ms(slowest['outside'])} of each step of {format_ms(slowest['total'])} outside its graph"
    text = f"the other ranks wait for rank {rank}, which spends {spends}; the others spend {format_ms(of_others)}."
    return Slowest(rank, f"{text} Rank {rank}: {slowest['text']}")


def _name_calls(calls: Sequence[Tuple[str, float]]) -> str:
    """Return the most expensive methods of callbacks, with their times in a step."""
    total = sum(seconds for _, seconds in calls)
    names = [f"{name} {format_ms(seconds)}" for name, seconds in calls[:_MAX_NAMED] if seconds >= _NAMED * total]
    return f": {'; '.join(names)}" if names else ""


def _judge_between_epochs(facts: Facts, between: float) -> Verdict:
    name, seconds = max(facts.between, key=lambda pair: pair[1])
    whole = facts.epoch + between
    gain = whole / (whole - seconds / 2)
    text = (
        f"callbacks between epochs take {between / whole:.0%} of the time, {name} {seconds:.3g} s after each epoch of "
        f"{facts.epoch:.3g} s. {name} after every second epoch would give {gain:.2f}x."
    )
    return Verdict(f"between epochs {name}", text)


def _judge_fed(waiting: float, total: float) -> Verdict:
    gain = total / max(waiting, total - waiting)
    text = (
        f"training waits for data {waiting / total:.0%} of the time, because FeedInput reads it in the training thread. "
        f"QueueInput reads ahead in another thread: up to {gain:.2g}x."
    )
    return Verdict("FeedInput", text, shows_stages=True)


def _judge_data(load: Load, share: float, is_graph_seen: bool) -> Verdict:
    waits = f"training waits for data {share:.0%} of the time."
    part = load.slowest
    if load.cores_are_full:
        return Verdict("cores", f"{waits} {describe_full_cores(load)}")
    if not load.is_known:
        return Verdict("unknown stage", f"{waits} {_describe_unknown(load)}", shows_stages=True)
    count = part.slowest.count / load.num_steps
    rate = f"{count / load.interval:,.3g} datapoints/s"
    if load.graph:
        at_most = "" if is_graph_seen else "at least "
        rate += f" of the {at_most}{count / load.graph:,.3g} that the graph could take"
    text = f"{waits} {describe_part(part)} gives {rate}. {describe_advice(load, advise(load))}"
    return Verdict(f"data {part.owner} {part.slowest.name}", text, shows_stages=True)


def _describe_unknown(load: Load) -> str:
    """Return sentences about a pipeline whose measured parts do not explain the time of a step."""
    part, takes = load.slowest, load.interval_of(load.slowest)
    largest = ""
    if takes:
        times = f"{format_ms(takes)} for a step that takes {format_ms(load.interval)}"
        largest = f" The largest measured part is {describe_part(part)} with {times}."
    return f"Which stage limits is not known.{largest} To measure the pipeline alone, run tensorpack-lite data-check."
