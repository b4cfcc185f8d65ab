"""The tables that the documentation makes of the code when it is built."""

from __future__ import annotations

import ast
import csv
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = """\
name\tupstream module\tstatus\tby import *\tpy files using\tdoc files using\there
A\ttensorpack.callbacks.base\tpublic\tstar\t1\t0\tsame
B\ttensorpack.callbacks.base\tpublic\t-\t0\t0\tlater
C\ttensorpack.models.conv\tpublic\t-\t0\t0\tdropped: nobody has missed it
tower\t(module or re-export at top level)\tpublic\tstar\t0\t0\tsame
"""
MODULE = '''
class One:
    """
    Does something.

    tensorpack: same; there it
    fails.
    """

    def method(self):
        """Does more.

        tensorpack: same.
        """


def two():
    """
    Is new.

    tensorpack: has none | at all.

    Source: a book.
    """


def three():
    """Nothing is said."""
'''


def tool(name: str):
    """A script of docs/ext."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestNames:
    def table(self, tmp_path) -> str:
        """That of four names."""
        file = tmp_path / "names.tsv"
        file.write_text(NAMES, encoding="utf-8")
        return tool("names_table").markdown(file)

    def test_counts(self, tmp_path):
        """Names, same, later, dropped and per cent, by package and of all."""
        lines = self.table(tmp_path).splitlines()
        assert [
            "| callbacks | 2 | 1 | 1 | 0 | 50.0 |",
            "| models | 1 | 0 | 0 | 1 | 0.0 |",
            "| top level | 1 | 1 | 0 | 0 | 100.0 |",
            "| **all** | 4 | 2 | 1 | 1 | 50.0 |",
        ] == lines[2:6]

    def test_the_reason_of_what_is_dropped(self, tmp_path):
        """By the path that a script has."""
        assert "| `tensorpack.models.conv.C` | nobody has missed it |" in self.table(tmp_path)

    def test_modules(self, tmp_path):
        """By the path to import from."""
        text = self.table(tmp_path)
        assert "| `tensorpack_lite.callbacks.base` | A | B |" in text
        assert "| `tensorpack_lite` | tower |  |" in text

    def test_nothing_dropped(self, tmp_path):
        """Said in a sentence."""
        file = tmp_path / "names.tsv"
        file.write_text("\n".join(NAMES.splitlines()[:3]), encoding="utf-8")
        assert "No name is dropped." in tool("names_table").markdown(file)

    def test_every_name_is_in_the_real_one(self):
        """All rows of the table are counted."""
        text = tool("names_table").markdown()
        with (ROOT / "tests" / "api" / "upstream_names.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        assert f"| **all** | {len(rows)} |" in text
        assert [] == [row["name"] for row in rows if row["name"] not in text]


def test_differences(tmp_path):
    """What docstrings say beyond `same`, one row each."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text(MODULE, encoding="utf-8")
    assert [
        "**package**",
        "",
        "| name | in tensorpack |",
        "| --- | --- |",
        "| `One` | it fails. |",
        r"| `two` | has none \| at all. |",
    ] == tool("differences_table").markdown(tmp_path).splitlines()


@pytest.mark.parametrize(
    ("package", "page"), [("callbacks", "callback_stock.md"), ("predict", "inference_export.md")]
)
def test_a_page_lists_all_of_a_package(package, page):
    """A new callback or predictor gets its place there."""
    path = ROOT / "tensorpack_lite" / package / "__init__.py"
    (names,) = [
        ast.literal_eval(statement.value)
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "__all__"
    ]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [] == [name for name in names if not re.search(rf"`{name}\b", text)]


def test_every_page_is_in_the_index():
    """A page that nothing leads to is not read."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    pages = {file.stem for file in (ROOT / "docs").glob("*.md")} - {"index"}
    assert [] == sorted(page for page in pages if page not in index)


def test_every_extra_is_in_the_page_on_installing():
    """What pip can be asked for, as setup.py has it."""
    (extras,) = [
        statement.value.keys
        for statement in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "EXTRAS"
    ]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    names = [ast.literal_eval(key) for key in extras]
    assert len(names) > 5
    assert [] == [name for name in names if f"`{name}`" not in page]
