"""
Every public name of tensorpack has a status: `same`, `later` or `dropped: reason`.

upstream_names.tsv lists the names by their module in tensorpack. A name with the status `same` can be imported from the
same path, with `tensorpack` replaced by `tensorpack_lite`.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import operator
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

TABLE = Path(__file__).with_name("upstream_names.tsv")
TOP_LEVEL = "(module or re-export at top level)"


def rows() -> list:
    """Return the rows of the table as dictionaries."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def find(row: dict):
    """Return the object at tensorpack's path. Raise ImportError or AttributeError if it does not exist."""
    path = row["upstream module"]
    place = "tensorpack_lite" if path == TOP_LEVEL else path.replace("tensorpack", "tensorpack_lite", 1)
    return operator.attrgetter(row["name"])(importlib.import_module(place))


def importable(row: dict) -> bool:
    """Return whether the import line of a script works."""
    try:
        find(row)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_row_has_a_status():
    """The status is `same`, `later`, or `dropped: ` with a reason."""
    wrong = [
        row for row in rows() if row["here"] not in ("same", "later") and len(row["here"].split("dropped: ")[-1]) < 10
    ]
    assert [] == wrong


def test_same_names_are_at_upstreams_path():
    """Each name with status `same` can be imported from tensorpack's path."""
    missing = [f"{r['upstream module']}.{r['name']}" for r in rows() if r["here"] == "same" and not importable(r)]
    assert [] == missing


def test_importable_names_have_status_same():
    """A name that can be imported has the status `same`."""
    stale = [f"{r['upstream module']}.{r['name']}" for r in rows() if r["here"] != "same" and importable(r)]
    assert [] == stale, "Set these rows of tests/api/upstream_names.tsv to `same`."


def test_no_upstream_name_is_forgotten():
    """The table has all 406 public names of tensorpack, and 7 others that scripts use."""
    assert 413 == len(rows())


def test_the_readme_counts_right():
    """README states the number of available names."""
    counts = {}
    for row in rows():
        status = row["here"].split(":")[0]
        counts[status] = counts.get(status, 0) + 1
    text = (TABLE.parents[2] / "README.md").read_text(encoding="utf-8")
    wanted = f"{counts['same']} of {sum(counts.values())} public names"
    assert wanted in text
