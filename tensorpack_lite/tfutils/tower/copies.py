"""
Copies of variables in other towers, for trainers whose towers have their own variables.

The graph builder registers one operation for each copy, which sets it to the value of the first tower's variable. Code that
changes variables between two steps runs those of the variables it has changed, so that all towers compute the same.
"""

from __future__ import annotations

import re
from typing import Collection, Iterable

from ...compat import tfv1 as tf
from ...utils.naming import TOWER_COPIES_KEY

_OF_TOWER = re.compile(r"tower([0-9]+)/(.+)")


def split_tower(name: str) -> tuple[int, str] | None:
    """Return the number of the tower and the rest of a name `tower<i>/<rest>`; None for any other name."""
    match = _OF_TOWER.fullmatch(name)
    return None if match is None else (int(match.group(1)), match.group(2))


def without_tower(variable: tf.Variable) -> str:
    """Return the name of a variable, without the prefix `tower<i>/` of a copy."""
    parts = split_tower(variable.op.name)
    return variable.op.name if parts is None else parts[1]


def register_copies(assignments: Iterable[tf.Operation]) -> None:
    """
    Register the operations that set copies.

    Args:
        assignments: operations whose first input is the copy, named `tower<i>/<name of the original>`.
    """
    for assignment in assignments:
        tf.add_to_collection(TOWER_COPIES_KEY, assignment)


def has_copies(graph: tf.Graph) -> bool:
    """Return whether towers of a graph have their own variables."""
    return bool(graph.get_collection(TOWER_COPIES_KEY))


def find_copies(graph: tf.Graph, names: Collection[str], but: Collection[str] = ()) -> list[tf.Operation]:
    """
    Return the operations that set the copies of variables.

    Args:
        graph: the graph.
        names: names of variables of the first tower, without `:0`. Variables without copies are allowed.
        but: names of copies to leave out.
    """
    found = []
    for assignment in graph.get_collection(TOWER_COPIES_KEY):
        copy = assignment.inputs[0].op.name
        parts = split_tower(copy)
        if parts is not None and parts[1] in names and copy not in but:
            found.append(assignment)
    return found


def update_copies(session: tf.Session, names: Collection[str], but: Collection[str] = ()) -> None:
    """Run what `find_copies` returns, after variables of the first tower have changed."""
    assignments = find_copies(session.graph, names, but)
    if assignments:
        session.run(assignments)
