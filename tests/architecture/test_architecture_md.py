"""ARCHITECTURE.md describes the house as it stands."""

from __future__ import annotations

import ast
import re

import pytest


@pytest.fixture(scope="module")
def text(root) -> str:
    """The page."""
    return (root / "ARCHITECTURE.md").read_text(encoding="utf-8")


def defined(syntax, dotted: str) -> bool:
    """Whether `Class.method`, a function or a name stands in a file."""
    body = syntax.body
    for part in dotted.split("."):
        for node in body:
            names = [node.name] if hasattr(node, "name") else []
            if isinstance(node, ast.Assign):
                names = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            if part in names:
                body = getattr(node, "body", [])
                break
        else:
            return False
    return True


def test_it_is_short(text):
    """Under 200 lines: more would not be read."""
    assert len(text.splitlines()) < 200


def test_its_symbols_exist(text, source, root):
    """Each `path.py::Symbol` is where the page says."""
    named = re.findall(r"`([\w/]+\.py)::([\w.]+)`", text)
    missing = []
    for path, symbol in named:
        file = root / "tensorpack_lite" / path
        file = file if file.exists() else root / path
        if not file.exists() or not defined(ast.parse(file.read_text(encoding="utf-8")), symbol):
            missing.append(f"{path}::{symbol}")
    assert len(named) > 10
    assert [] == missing, f"ARCHITECTURE.md names what is not there: {', '.join(missing)}"


def test_every_package_has_its_line(text, source):
    """One line a package."""
    packages = {m.name.split(".")[1] for m in source if m.is_package and m.name.count(".") == 1}
    assert [] == sorted(p for p in packages if f"`{p}/`" not in text)


def test_the_floors_are_those_of_the_gate(text, source):
    """The table of floors in the page and in test_floors.py are one."""
    gate = ast.parse((source.root / "tests" / "architecture" / "test_floors.py").read_text(encoding="utf-8"))
    table = next(n.value for n in gate.body if isinstance(n, ast.Assign) and n.targets[0].id == "FLOORS")
    expected = {
        k: v
        for k, v in ast.literal_eval(table).items()
        if k and (source.root / "tensorpack_lite" / k / "__init__.py").exists()
    }
    shown = {}
    for number, packages in re.findall(r"^\| (\d) \| ([^|]+) \|", text, re.MULTILINE):
        shown.update({name: int(number) for name in re.findall(r"`(\w+)/`", packages)})
    assert expected == shown


def test_addresses_are_listed(text, source):
    """Each file without code of its own is named, so that nobody looks for the code in it."""
    missing = [m.path for m in source if m.is_address and f"`{m.path}`" not in text]
    assert [] == missing, f"Addresses that ARCHITECTURE.md does not list: {', '.join(missing)}"


def test_addresses_hold_nothing(source):
    """An address is a docstring, imports by name and `__all__`: no star, no more than ten statements."""
    wrong = [m.path for m in source if m.is_address and (len(m.syntax.body) > 10 or "import *" in m.source)]
    assert [] == wrong
