"""
Every defect of tensorpack 0.11 that this library corrects has a test.

bug_ledger.tsv has a row for each defect. The third column has the ids of the tests, or `see` and the rows of the same
defect, or `dropped: ` and the reason.
"""

from __future__ import annotations

import ast
import csv
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("bug_ledger.tsv")


def rows() -> list:
    """Return the table as triples: the row's name, the defect, its tests."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file, delimiter="\t")][1:]


@lru_cache(maxsize=None)
def names_in(path: str) -> frozenset:
    """Return the names of a file's tests as in pytest's ids, without running the file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(name for name in found if name.split("::")[-1].startswith("test_"))


def is_shown(shown: str, names: set) -> bool:
    """Return whether the third column has one of the forms in the module's docstring."""
    if shown.startswith("dropped: "):
        return len(shown) > 20
    if shown.startswith("see "):
        return set(shown.split()[1:]) <= names
    return bool(shown) and all(
        "::" in node and node.split("::", 1)[1] in names_in(node.split("::")[0]) for node in shown.split()
    )


@pytest.mark.slow
def test_every_defect_is_shown():
    """Each test and each row that the third column names exists."""
    names = {name for name, _, _ in rows()}
    assert [] == [(name, shown) for name, _, shown in rows() if not is_shown(shown, names)]


def test_no_row_refers_to_one_that_refers():
    """A row after `see` has tests itself."""
    referring = {name for name, _, shown in rows() if shown.startswith("see ")}
    assert [] == [name for name, _, shown in rows() if name in referring and referring & set(shown.split()[1:])]


def test_the_ledgers_are_complete():
    """The table has the 31 numbered defects of the core and the 34 of dataflow, and no row twice."""
    names = [name for name, _, _ in rows()]
    numbers = {re.sub("[a-z]$", "", name) for name in names}
    assert len(set(names)) == len(names)
    assert {f"core-11.{k}" for k in range(1, 32)} | {f"data-19.{k}" for k in range(1, 35)} <= numbers
