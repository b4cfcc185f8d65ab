"""Sentences about the part of a pipeline that limits its speed, and about what changes would bring."""

from __future__ import annotations

from typing import Sequence

from .bottleneck import Advice, Load, find_saving
from .pipeline_load import HERE, Part

_DOCS = "see docs/speed.md"
_BETTER = 1.1  # times the gain of more workers, for which a cache is worth a mention
_MAX_GAIN = 50  # more is not worth a number
_MENTIONED = 10**8  # bytes; less memory is not worth a mention
_LIMITS = {"cores": "the CPU cores limit", "graph": "the graph limits", "lock": "Python's lock limits"}


def describe_part(part: Part) -> str:
    """Return the name of a part for a sentence, e.g. "MultiProcessMapData(f), 2 processes,"."""
    if part.kind == HERE:
        return f"{part.slowest.name}, in the thread that reads the data,"
    name = part.owner
    if part.slowest.name not in part.owner:
        name = f"{part.slowest.name} in the workers of {part.owner}"
    kind = part.kind if part.num_workers > 1 else {"threads": "thread", "processes": "process"}[part.kind]
    return f"{name}, {part.num_workers} {kind},"


def describe_full_cores(load: Load) -> str:
    """Return a sentence about cores without time left."""
    stages = [stage for part in load.parts for stage in part.stages]
    cost, name = max((stage.count * (stage.cpu or 0.0) / load.num_steps, stage.name) for stage in stages)
    data = sum(part.cpu for part in load.parts) / load.num_steps
    return (
        f"The CPU cores are full: {(load.cpu or 0.0) / load.seconds:.3g} of {load.cores:.3g} are busy. More workers will not help: a step costs "
        f"{format_ms((load.cpu or 0.0) / load.num_steps)} of CPU time, the data {format_ms(data)} of it. The most expensive stage is {name}, "
        f"{format_ms(cost)}."
    )


def describe_advice(load: Load, options: Sequence[Advice]) -> str:
    """Return sentences about changes and their gain."""
    if load.is_contended:
        return "The gain of more workers is not known, because other programs use the CPU cores, too."
    memory, saving = load.slowest.memory, _describe_saving(load, options)
    if not options and memory and load.free_memory is not None and memory > load.free_memory:
        return f"Another worker does not fit into the free memory: one uses {_gb(memory)}, {_gb(load.free_memory)} are free.{saving}"
    if not options:
        return f"The gain of more workers is not known, or less than 10 %; {_DOCS}.{saving}"
    part = options[0].part
    subject = f"{part.slowest.name} in a runner or map with" if part.kind == HERE else "With"
    changes = [
        f"{option.num_workers} workers: {option.gain:.2g}x{_then(option)}{_memory(option)}." for option in options
    ]
    return f"{subject} {' With '.join(changes)}{saving}"


def _describe_saving(load: Load, options: Sequence[Advice]) -> str:
    """Return a sentence about a cache, or a cheaper function, if its gain is larger than that of more workers."""
    saving = find_saving(load)
    needed = _BETTER * max([1.0, *(option.gain for option in options)])
    if saving is None or max(saving.gain, saving.gain_of_cache) < needed:
        return ""
    fits = load.free_memory is None or saving.cache_memory <= load.free_memory
    if saving.cache_memory and fits and saving.gain_of_cache >= needed:
        return (
            f" CacheData after {saving.stage.name} would give {_times(saving.gain_of_cache)} and needs {_gb(saving.cache_memory)}, if "
            "the results are the same in each pass."
        )
    if options or saving.gain < needed:
        return ""
    return f" Without the cost of {saving.stage.name}: {_times(saving.gain)}."


def _then(option: Advice) -> str:
    if option.limit == option.part.owner:
        return ""
    return f", then {_LIMITS.get(option.limit, f'{option.limit} limits')}"


def _memory(option: Advice) -> str:
    return f" (about {_gb(option.more_memory)} more memory)" if option.more_memory >= _MENTIONED else ""


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= _MENTIONED else f"{num_bytes / 1e6:.3g} MB"


def _times(gain: float) -> str:
    return f"{gain:.2g}x" if gain < _MAX_GAIN else f"more than {_MAX_GAIN}x"


def format_ms(seconds: float) -> str:
    """Return a time in milliseconds, with three digits."""
    return f"{1e3 * seconds:.3g} ms"
