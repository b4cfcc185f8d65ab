"""
The directive `summary-table`: the public names of a package, the most used ones first, each with its first sentence.

Each package's page of the reference also gets a section for each of its modules, with the docstrings of the public names.

The use of a name is the number of tensorpack's own files that use it, a column of tests/api/upstream_names.tsv. Names that
tensorpack does not have follow in alphabetical order.
"""

from __future__ import annotations

import csv
import inspect
import re
from importlib import import_module
from pathlib import Path

__all__ = ["listed_names", "markdown", "sections", "setup"]

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "tests" / "api" / "public_api.txt"
LINE = re.compile(r"^. (tensorpack_lite\.\S+)\.(\w+): (?:class|function)", re.MULTILINE)
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


def listed_names(package: str = "") -> list:
    """Return (module, name) of each public function, and of each public class at its definition, or those of one package."""
    places = LINE.findall(API.read_text(encoding="utf-8"))
    inside = [place for place in places if not package or place[0].split(".")[1] == package]
    return [(module, name) for module, name in inside if _is_defined_in(module, name)]


def _is_defined_in(module: str, name: str) -> bool:
    thing = getattr(import_module(module), name)
    return not isinstance(thing, type) or thing.__module__ == module


def sections(package: str) -> str:
    """Return the sections of a package's modules as Markdown. The package itself has none: its page begins with it."""
    names: dict = {}
    for module, name in listed_names(package):
        if module != f"tensorpack_lite.{package}":
            names.setdefault(module, []).append(name)
    return "".join(
        f"\n## {module.split('.', 1)[1]}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :members: {', '.join(found)}\n```\n"
        for module, found in names.items()
    )


def _definitions(package: str) -> list:
    """Return (module, name, summary) of each public name of a package."""
    return [(module, name, _summary(getattr(import_module(module), name))) for module, name in listed_names(package)]


def _summary(thing: object) -> str:
    """Return the first sentence of a docstring, on one line."""
    paragraph = (inspect.getdoc(thing) or "").split("\n\n")[0]
    sentence = re.split(r"(?<=[.;:])\s+(?=[A-Z])|:$", " ".join(paragraph.split()))[0]
    return sentence.replace("|", r"\|")


def _append_sections(app, page: str, source: list) -> None:
    if page.startswith("reference/"):
        source[0] += sections(page.split("/")[1])


def setup(app) -> dict:
    """Register the directive, and append the sections to the pages of the reference."""
    from _directive import from_markdown

    app.add_directive("summary-table", from_markdown(markdown))
    app.connect("source-read", _append_sections)
    return {"parallel_read_safe": True}
