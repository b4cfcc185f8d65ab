"""
The directive `differences-table`: every difference that a docstring states.

Public docstrings end in a line `tensorpack: same`, or say what is otherwise there. The table has each that says more.
`python docs/ext/differences_table.py` prints the same as Markdown.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

__all__ = ["markdown", "setup"]

LIBRARY = Path(__file__).resolve().parents[2] / "tensorpack_lite"
LINE = re.compile(r"^tensorpack: (.*?)(?=\n\s*\n|\Z|\n\w+( \w+)*:)", re.DOTALL | re.MULTILINE)
SAME = re.compile(r"same; (there\b,? )?")


def markdown(library: Path = LIBRARY) -> str:
    """One table a package."""
    tables: dict = {}
    for file in sorted(library.rglob("*.py")):
        package = file.relative_to(library).parts[0]
        for name, text in _differences(file):
            tables.setdefault(package, []).append(f"| `{name}` | {text} |")
    parts = [
        "\n".join([f"**{package}**", "", "| name | in tensorpack |", "| --- | --- |", *lines])
        for package, lines in tables.items()
    ]
    return "\n\n".join(parts)


def _differences(file: Path) -> Iterator[tuple]:
    """Qualified names of a file's definitions with what their docstrings say of tensorpack, unless it is `same`."""
    for name, node in _definitions(ast.parse(file.read_text(encoding="utf-8")), ""):
        found = LINE.search(ast.get_docstring(node) or "")
        text = " ".join(found.group(1).split()).replace("|", r"\|") if found else "same"
        if not re.fullmatch(r"same\.?|same; see .*", text):
            yield name, SAME.sub("", text, count=1) if SAME.match(text) else re.sub("^there ", "", text)


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple]:
    for child in getattr(node, "body", []):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")


def setup(app) -> dict:
    """Called by Sphinx."""
    from _directive import from_markdown

    app.add_directive("differences-table", from_markdown(markdown))
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    print(markdown())
