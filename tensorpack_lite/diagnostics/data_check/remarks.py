"""Remarks of lint: one for each mistake that it found in a training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable, Sequence

from ...utils.naming import list_names


@dataclass(frozen=True)
class Remark:
    """
    A mistake that a rule of lint found.

    Attributes:
        rule: the id of the rule, e.g. "G03".
        name: the name of the variable, operation, callback or input.
        text: one sentence about the mistake.
        advice: what to do.
        place: `file:line` where the operation was created; "" if it is unknown.
    """

    rule: str
    name: str
    text: str
    advice: str
    place: str = ""

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        return f"{self.rule} {self.name}{place}: {self.text} {self.advice}"


def join_remarks(remarks: Iterable[Remark]) -> list[Remark]:
    """Make one remark of those that differ only in their names, such as those about the weights and biases of a layer."""
    groups: dict[Remark, list[str]] = {}
    for remark in remarks:
        groups.setdefault(replace(remark, name=""), []).append(remark.name)
    return [replace(remark, name=list_names(names)) for remark, names in groups.items()]


def show_remarks(remarks: Sequence[Remark]) -> str:
    """Return the remarks as text: their number, and a line for each."""
    title = f"Lint: {len(remarks)} remark{'s' if len(remarks) > 1 else ''}"
    return "\n".join([title, *(f"  {remark}" for remark in remarks)])
