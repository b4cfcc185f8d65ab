"""docs/reliability.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reliability.md"


def named_tests() -> list:
    """Return the file and the names of each test on the page. `::name` alone refers to the file named before it."""
    found, file = [], ""
    for test in re.findall(r"`((?:tests/|::)[^`]+)`", PAGE.read_text(encoding="utf-8")):
        path, *names = test.split("::")
        file = path or file
        found.append((file, names))
    return found


def exists(file: str, names: list) -> bool:
    """Return whether a file defines these classes and functions, each inside the previous one."""
    node = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for name in names:
        inside = {child.name: child for child in ast.walk(node) if isinstance(child, (ast.ClassDef, ast.FunctionDef))}
        if name not in inside:
            return False
        node = inside[name]
    return True


def test_every_test_on_the_page_exists():
    """Each promise names at least one test, and every test that it names exists."""
    tests = named_tests()
    promises = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(tests) > 40
    assert [] == [line for line in promises if "`tests/" not in line and "promise" not in line and "---" not in line]
    assert [] == ["::".join([file, *names]) for file, names in tests if not exists(file, names)]
