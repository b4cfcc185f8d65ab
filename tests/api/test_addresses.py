"""
Every name of upstream's API is accounted for: `same`, `later` or `dropped: why`.

upstream_names.tsv lists them by upstream's module path. A script that changes only `tensorpack` to
`tensorpack_lite` in its imports finds each name that says `same`.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

TABLE = Path(__file__).with_name("upstream_names.tsv")
TOP_LEVEL = "(module or re-export at top level)"


def rows() -> list:
    """The table as dictionaries."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def find(row: dict):
    """The object at upstream's path; raises ImportError or AttributeError when it is not there."""
    path = row["upstream module"]
    place = "tensorpack_lite" if path == TOP_LEVEL else path.replace("tensorpack", "tensorpack_lite", 1)
    return getattr(importlib.import_module(place), row["name"])


def importable(row: dict) -> bool:
    """Whether a script's import line would work."""
    try:
        find(row)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_row_has_a_status():
    """`same`, `later`, or `dropped: ` with a reason."""
    wrong = [
        row
        for row in rows()
        if row["here"] not in ("same", "later") and len(row["here"].split("dropped: ")[-1]) < 10
    ]
    assert [] == wrong


def test_same_names_are_at_upstreams_path():
    """Each `same` name can be imported from where upstream has it."""
    missing = [
        f"{r['upstream module']}.{r['name']}" for r in rows() if r["here"] == "same" and not importable(r)
    ]
    assert [] == missing


def test_what_is_here_says_so():
    """A name that is there already is not announced for later, nor called dropped."""
    stale = [f"{r['upstream module']}.{r['name']}" for r in rows() if r["here"] != "same" and importable(r)]
    assert [] == stale, "Set these rows of tests/api/upstream_names.tsv to `same`."


def test_no_upstream_name_is_forgotten():
    """The table has upstream's 406 rows."""
    assert 406 == len(rows())


def test_the_readme_counts_right():
    """The README shows how many names are here."""
    counts = {}
    for row in rows():
        status = row["here"].split(":")[0]
        counts[status] = counts.get(status, 0) + 1
    text = (TABLE.parents[2] / "README.md").read_text(encoding="utf-8")
    wanted = f"{counts['same']} of {sum(counts.values())} public names"
    assert wanted in text
