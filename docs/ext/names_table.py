"""
The directive `names-table`: what became of each public name of tensorpack 0.11, and of older versions.

It reads tests/api/upstream_names.tsv and tensorpack_lite/utils/old_names_table.py when the documentation is built, so
the page is never behind the code. `python docs/ext/names_table.py` prints the same as Markdown.
"""

from __future__ import annotations

import csv
import runpy
from collections import OrderedDict
from pathlib import Path

__all__ = ["markdown", "setup"]

TABLE = Path(__file__).resolve().parents[2] / "tests" / "api" / "upstream_names.tsv"
OLD_NAMES = TABLE.parents[2] / "tensorpack_lite" / "utils" / "old_names_table.py"
TOP_LEVEL = "(module or re-export at top level)"
STATES = ("same", "later", "dropped")


def markdown(table: Path = TABLE) -> str:
    """Return the tables of names, without the headings of the page."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return "\n\n".join([_counts(rows), _dropped(rows), _modules(rows), old_names()])


def _state(row: dict) -> str:
    return row["here"].split(":")[0]


def _package(row: dict) -> str:
    """`tensorpack.callbacks.monitor` belongs to callbacks."""
    path = row["upstream module"]
    return "top level" if path == TOP_LEVEL else path.split(".")[1]


def _grouped(rows: list, key) -> OrderedDict:
    groups: dict = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return OrderedDict(sorted(groups.items()))


def _counts(rows: list) -> str:
    """How many names of each package are here."""
    lines = [
        "| package | names | same | later | dropped | same, in % |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for name, members in [*_grouped(rows, _package).items(), ("**all**", rows)]:
        numbers = [sum(_state(row) == state for row in members) for state in STATES]
        share = 100 * numbers[0] / len(members)
        lines.append(f"| {name} | {len(members)} | " + " | ".join(map(str, numbers)) + f" | {share:.1f} |")
    return "\n".join(lines)


def _dropped(rows: list) -> str:
    """Which names are not here, and why; nothing where there is none."""
    dropped = [row for row in rows if _state(row) == "dropped"]
    if not dropped:
        return "No name is dropped."
    lines = ["**Dropped**", "", "| name | why |", "| --- | --- |"]
    lines += [f"| `{_path(row)}` | {row['here'].split(': ', 1)[1]} |" for row in dropped]
    return "\n".join(lines)


def _path(row: dict) -> str:
    module = row["upstream module"]
    return f"tensorpack.{row['name']}" if module == TOP_LEVEL else f"{module}.{row['name']}"


def _modules(rows: list) -> str:
    """The names by the module they are imported from."""
    lines = ["**By module**", "", "| import from | same | later |", "| --- | --- | --- |"]
    for module, members in _grouped(rows, lambda row: row["upstream module"]).items():
        place = "tensorpack_lite" if module == TOP_LEVEL else module.replace("tensorpack", "tensorpack_lite", 1)
        same, later = (", ".join(row["name"] for row in members if _state(row) == state) for state in STATES[:2])
        lines.append(f"| `{place}` | {same} | {later} |")
    return "\n".join(lines)


def old_names(file: Path = OLD_NAMES) -> str:
    """The names of tensorpack 0.2 to 0.10, one row for each name with the modules that had it."""
    table = runpy.run_path(str(file))
    rows = [(name, "works", "") for name in table["KEPT_NAMES"]]
    for name, old in {**table["OLD_NAMES"], **table["OLD_MODULES"]}.items():
        rows.append((name, "works under `run`" if old.target else "raises this sentence", old.advice))
    lines = ["**Names of tensorpack 0.2 to 0.10**", "", "| name | state | instead |", "| --- | --- | --- |"]
    lines += [f"| `tensorpack_lite.{name}` | {state} | {advice} |" for name, state, advice in sorted(rows)]
    return "\n".join(lines)


def setup(app) -> dict:
    """Called by Sphinx."""
    from _directive import from_markdown

    app.add_directive("names-table", from_markdown(markdown))
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    print(markdown())
