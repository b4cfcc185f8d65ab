"""
Every defect of tensorpack 0.11 that this library corrects has a test.

bug_ledger.tsv has a row for each: the node ids of the tests that show what happens here, `see` the rows that
say the same, `dropped: ` with the reason, or the issue of whose work it is part.
"""

from __future__ import annotations

import ast
import csv
import re
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("bug_ledger.tsv")


def rows() -> list:
    """The table as triples: the row's name, the defect, what shows it."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file, delimiter="\t")][1:]


@lru_cache(maxsize=None)
def names_in(path: str) -> frozenset:
    """Names of a file's tests as pytest writes them after the path; read, not run."""
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
    """Whether the third column is one of the forms of the module's docstring."""
    if shown.startswith("dropped: "):
        return len(shown) > 20
    if shown.startswith("see "):
        return set(shown.split()[1:]) <= names
    if re.fullmatch(r"issue \d", shown):
        return True
    return bool(shown) and all(
        "::" in node and node.split("::", 1)[1] in names_in(node.split("::")[0]) for node in shown.split()
    )


def test_every_defect_is_shown():
    """Each test that is named exists, each row that is referred to as well."""
    names = {name for name, _, _ in rows()}
    assert [] == [(name, shown) for name, _, shown in rows() if not is_shown(shown, names)]


def test_no_row_refers_to_one_that_refers():
    """One step leads to a test."""
    referring = {name for name, _, shown in rows() if shown.startswith("see ")}
    assert [] == [
        name for name, _, shown in rows() if name in referring and referring & set(shown.split()[1:])
    ]


def test_the_ledgers_are_complete():
    """The 31 defects of the core's ledger, the 34 of the data's, and what the text of both says; none twice."""
    names = [name for name, _, _ in rows()]
    numbers = {re.sub("[a-z]$", "", name) for name in names}
    assert len(set(names)) == len(names)
    assert {f"core-11.{k}" for k in range(1, 32)} | {f"data-19.{k}" for k in range(1, 35)} <= numbers
