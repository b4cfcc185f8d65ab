"""The reference has a place for every public module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def public_definitions() -> dict:
    """The functions and classes that a file defines and has in its own `__all__`, by the file's dotted name."""
    found = {}
    for file in (ROOT / "tensorpack_lite").rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if len(parts) == 1 or any(part.startswith("_") for part in parts):
            continue
        body = ast.parse(file.read_text(encoding="utf-8")).body
        names = public_names(body)
        here = [n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name in names]
        if here:
            found[".".join(parts)] = here
    return found


def public_names(body: list) -> set:
    """What a literal `__all__` holds; nothing where there is none."""
    for statement in body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(statement.value)) if isinstance(statement.value, ast.List) else set()
    return set()


def undocumented(module: str, node) -> list:
    """The definition, and the public methods it adds, that have no docstring; one that overrides may do without."""
    missing = [] if ast.get_docstring(node) else [f"{module}.{node.name}"]
    if isinstance(node, ast.ClassDef) and not node.bases:
        missing += [f"{module}.{node.name}.{part.name}" for part in node.body if needs_docstring(part)]
    return missing


def needs_docstring(part) -> bool:
    """Whether a statement of a class is a public method, and no setter, without docstring."""
    if not isinstance(part, ast.FunctionDef) or part.name.startswith("_"):
        return False
    is_setter = any(getattr(decorator, "attr", "") == "setter" for decorator in part.decorator_list)
    return not is_setter and not ast.get_docstring(part)


def test_every_public_module_is_in_the_reference():
    """A new file gets its `automodule` in docs/reference/."""
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"automodule:: (\S+)", pages))
    missing = sorted(set(public_definitions()) - shown)
    assert [] == missing, f"Add them to docs/reference/: {', '.join(missing)}"


def test_every_public_name_is_documented():
    """Sphinx leaves out what has no docstring without a word, so this does not."""
    missing = [
        name
        for module, nodes in public_definitions().items()
        for node in nodes
        for name in undocumented(module, node)
    ]
    assert [] == missing
