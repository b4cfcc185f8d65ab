"""The API reference has every public module and every public name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def public_definitions() -> dict:
    """Return, for each module, the functions and classes that it defines and lists in `__all__`."""
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
    """Return the names in a literal `__all__`, or an empty set if there is none."""
    for statement in body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(statement.value)) if isinstance(statement.value, ast.List) else set()
    return set()


def undocumented(module: str, node) -> list:
    """Return a definition and its public methods that lack a docstring. Methods of subclasses may inherit theirs."""
    missing = [] if ast.get_docstring(node) else [f"{module}.{node.name}"]
    if isinstance(node, ast.ClassDef) and not node.bases:
        missing += [f"{module}.{node.name}.{part.name}" for part in node.body if needs_docstring(part)]
    return missing


def needs_docstring(part) -> bool:
    """Return whether a statement in a class is a public method without a docstring. Setters need none."""
    if not isinstance(part, ast.FunctionDef) or part.name.startswith("_"):
        return False
    is_setter = any(getattr(decorator, "attr", "") == "setter" for decorator in part.decorator_list)
    return not is_setter and not ast.get_docstring(part)


@pytest.mark.slow
def test_every_public_module_is_in_the_reference():
    """Each public module has an `automodule` directive in docs/reference/."""
    pages = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"automodule:: (\S+)", pages))
    missing = sorted(set(public_definitions()) - shown)
    assert [] == missing, f"Add them to docs/reference/: {', '.join(missing)}"


@pytest.mark.slow
def test_every_public_name_is_documented():
    """Each public name has a docstring; Sphinx silently omits names without one."""
    missing = [
        name
        for module, nodes in public_definitions().items()
        for node in nodes
        for name in undocumented(module, node)
    ]
    assert [] == missing
