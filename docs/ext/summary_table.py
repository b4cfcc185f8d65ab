"""
The directive `summary-table`: the public names of a package, the most used ones first, each with its first sentence.

The use of a name is the number of tensorpack's own files that use it, a column of tests/api/upstream_names.tsv. Names that
tensorpack does not have follow in alphabetical order.
"""

from __future__ import annotations

import csv
import inspect
import re
from importlib import import_module
from pathlib import Path

__all__ = ["listed_names", "markdown", "setup"]

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
MEMBERS = re.compile(r"automodule:: (\S+)\n +:members: (.+)")
USES = ROOT / "tests" / "api" / "upstream_names.tsv"


def markdown(package: str) -> str:
    """Return the table of a package, such as `callbacks`, as Markdown."""
    uses = _uses()
    rows = sorted(_definitions(package), key=lambda row: (-uses.get(row[1], 0), row[1].lower()))
    lines = [f"| {{py:obj}}`{name} <{module}.{name}>` | {summary} |" for module, name, summary in rows]
    return "\n".join(["| name | summary |", "| --- | --- |", *lines])


def _uses() -> dict:
    with USES.open(encoding="utf-8", newline="") as file:
        return {row["name"]: int(row["py files using"] or 0) for row in csv.DictReader(file, delimiter="\t")}


def listed_names(package: str = "*") -> list:
    """Return (module, name) of each name that the reference lists, or the page of one package."""
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob(f"{package}.md")))
    return [(module, name) for module, names in MEMBERS.findall(pages) for name in names.split(", ")]


def _definitions(package: str) -> list:
    """Return (module, name, summary) of each name that the package's page of the reference lists."""
    return [(module, name, _summary(getattr(import_module(module), name))) for module, name in listed_names(package)]


def _summary(thing: object) -> str:
    """Return the first sentence of a docstring, on one line."""
    paragraph = (inspect.getdoc(thing) or "").split("\n\n")[0]
    sentence = re.split(r"(?<=[.;:])\s+(?=[A-Z])|:$", " ".join(paragraph.split()))[0]
    return sentence.replace("|", r"\|")


def setup(app) -> dict:
    """Register the directive."""
    from _directive import from_markdown

    app.add_directive("summary-table", from_markdown(markdown))
    return {"parallel_read_safe": True}
