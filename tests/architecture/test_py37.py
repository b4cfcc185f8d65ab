"""Every file uses only the syntax of Python 3.7: no walrus, no `/` in signatures, no `f"{x=}"`, no `match`."""

from __future__ import annotations

import ast
import sys

import pytest

FOLDERS = ["tensorpack_lite", "tests", "examples", "benchmarks", "docs"]
NEWER = {
    "walrus": "if (n := 1):\n    pass\n",
    "positional-only": "def f(a, /):\n    pass\n",
    "self-documenting": 'f"{1=}"\n',
    "match": "match x:\n    case 1:\n        pass\n",
}


def parse(text: str, name: str = "<text>"):
    """Parse with the grammar of Python 3.7."""
    if sys.version_info >= (3, 8):
        return ast.parse(text, name, feature_version=(3, 7))
    return ast.parse(text, name)


def python_files(root) -> list:
    """Return all Python files of the repository."""
    files = [root / "setup.py"]
    for folder in FOLDERS:
        files += sorted((root / folder).rglob("*.py"))
    # a script that is translated before it runs
    return [file for file in files if "python2" not in file.name or file.parent.name != "old_libraries"]


def test_every_file_parses_as_python_37(root):
    """No file uses newer syntax. Newer functions of the standard library fail in the py37 environment."""
    wrong = []
    for file in python_files(root):
        try:
            parse(file.read_text(encoding="utf-8"), str(file))
        except SyntaxError as error:
            wrong.append(f"{file.relative_to(root)}:{error.lineno}: {error.msg}. Python 3.7 cannot read this.")
    assert [] == wrong


@pytest.mark.parametrize("construct", sorted(set(NEWER) - {"self-documenting"}))
def test_newer_syntax_is_seen(construct):
    """Newer syntax raises a SyntaxError."""
    with pytest.raises(SyntaxError):
        parse(NEWER[construct])


def test_annotations_are_not_evaluated(source):
    """Each file with annotations has the future import, so annotations may use `int | None`."""
    annotated = (ast.FunctionDef, ast.AnnAssign)
    without = [
        m.path
        for m in source
        if any(isinstance(node, annotated) for node in ast.walk(m.syntax))
        and not any(i.target == "__future__" and "annotations" in i.names for i in m.imports)
    ]
    assert [] == without, "Write `from __future__ import annotations` below the docstring."
