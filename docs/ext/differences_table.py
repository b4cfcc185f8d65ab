"""
Directives for the tables of differences from tensorpack.

`differences-table` lists the paragraphs `Difference from tensorpack: ...` of all docstrings, one table per package.
`defects-table` lists the defects of tensorpack 0.11 that this library corrects, from `tests/api/bug_ledger.tsv`.
`python docs/ext/differences_table.py` prints both as Markdown.
"""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path
from typing import Iterator

__all__ = ["defects", "markdown", "setup"]

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "tensorpack_lite"
LEDGER = ROOT / "tests" / "api" / "bug_ledger.tsv"
PARAGRAPH = re.compile(r"^Difference from tensorpack: (.*?)(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


def markdown(library: Path = LIBRARY) -> str:
    """Return one table per package."""
    tables: dict = {}
    for file in sorted(library.rglob("*.py")):
        package = file.relative_to(library).parts[0]
        for name, text in _differences(file):
            tables.setdefault(package, []).append(f"| `{name}` | {text} |")
    parts = [
        "\n".join([f"**{package}**", "", "| name | difference |", "| --- | --- |", *lines])
        for package, lines in tables.items()
    ]
    return "\n\n".join(parts)


def defects(ledger: Path = LEDGER) -> str:
    """Return one table of the corrected defects, each with its first test. Rows without a test are omitted."""
    with ledger.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    lines = [f"| {_escape(defect)} | `{test.split()[0]}` |" for _, defect, test in rows if test.startswith("tests/")]
    return "\n".join(["| what tensorpack 0.11 does | test |", "| --- | --- |", *lines])


def _differences(file: Path) -> Iterator[tuple]:
    """Yield the qualified name and the text of each difference that a docstring in a file states."""
    for name, node in _definitions(ast.parse(file.read_text(encoding="utf-8")), ""):
        found = PARAGRAPH.search(ast.get_docstring(node) or "")
        if found:
            yield name, _escape(" ".join(found.group(1).split()))


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple]:
    for child in getattr(node, "body", []):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


def setup(app) -> dict:
    """Register the directives in Sphinx."""
    from _directive import from_markdown

    app.add_directive("differences-table", from_markdown(markdown))
    app.add_directive("defects-table", from_markdown(defects))
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    print(markdown(), defects(), sep="\n\n")
