"""The reference has a place for every public module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def modules_with_public_definitions() -> set:
    """Dotted names of the files that define something that is in their own `__all__`."""
    found = set()
    for file in (ROOT / "tensorpack_lite").rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if any(part.startswith("_") for part in parts):
            continue
        body = ast.parse(file.read_text(encoding="utf-8")).body
        defined = {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        for statement in body:
            literal = (
                isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__"
            )
            if literal and len(parts) > 1 and defined & set(ast.literal_eval(statement.value)):
                found.add(".".join(parts))
    return found


def test_every_public_module_is_in_the_reference():
    """A new file gets its `automodule` in docs/reference/."""
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"automodule:: (\S+)", pages))
    missing = sorted(modules_with_public_definitions() - shown)
    assert [] == missing, f"Add them to docs/reference/: {', '.join(missing)}"
