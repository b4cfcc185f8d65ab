"""The tables that the documentation generates from the code."""

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

    Difference from tensorpack: tensorpack fails. This
    class works.

    Source: a book.
    """

    def method(self):
        """Does more.

        Difference from tensorpack: a | b.
        """


def two():
    """
    Is new, unlike the Difference from tensorpack: it is not at the start of a line.
    """


def three():
    """Has no difference."""
'''


def tool(name: str):
    """Import a script of docs/ext."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestNames:
    def table(self, tmp_path) -> str:
        """Return the table of four names."""
        file = tmp_path / "names.tsv"
        file.write_text(NAMES, encoding="utf-8")
        return tool("names_table").markdown(file)

    def test_counts(self, tmp_path):
        """The table has the number of names by status and the percentage, by package and in total."""
        lines = self.table(tmp_path).splitlines()
        assert [
            "| callbacks | 2 | 1 | 1 | 0 | 50.0 |",
            "| models | 1 | 0 | 0 | 1 | 0.0 |",
            "| top level | 1 | 1 | 0 | 0 | 100.0 |",
            "| **all** | 4 | 2 | 1 | 1 | 50.0 |",
        ] == lines[2:6]

    def test_the_reason_of_what_is_dropped(self, tmp_path):
        """A dropped name is listed with its reason, by its path in tensorpack."""
        assert "| `tensorpack.models.conv.C` | nobody has missed it |" in self.table(tmp_path)

    def test_modules(self, tmp_path):
        """Names are listed by the path to import them from."""
        text = self.table(tmp_path)
        assert "| `tensorpack_lite.callbacks.base` | A | B |" in text
        assert "| `tensorpack_lite` | tower |  |" in text

    def test_nothing_dropped(self, tmp_path):
        """Without dropped names, a sentence replaces the list."""
        file = tmp_path / "names.tsv"
        file.write_text("\n".join(NAMES.splitlines()[:3]), encoding="utf-8")
        assert "No name is dropped." in tool("names_table").markdown(file)

    def test_old_names(self):
        """Each name of older versions is a row: it works, works under `run`, or raises a sentence."""
        lines = tool("names_table").old_names().splitlines()
        assert "| `tensorpack_lite.dataflow.prefetch` | works |  |" in lines
        (row,) = [line for line in lines if line.startswith("| `tensorpack_lite.InputDesc` |")]
        assert "| works under `run` | Use tf.TensorSpec" in row
        (row,) = [line for line in lines if line.startswith("| `tensorpack_lite.RL` |")]
        assert "| raises this sentence | Reinforcement learning left tensorpack" in row

    def test_every_name_is_in_the_real_one(self):
        """The real table has every row of upstream_names.tsv."""
        text = tool("names_table").markdown()
        with (ROOT / "tests" / "api" / "upstream_names.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        assert f"| **all** | {len(rows)} |" in text
        assert [] == [row["name"] for row in rows if row["name"] not in text]


def test_differences(tmp_path):
    """Each paragraph `Difference from tensorpack: ` is a row, up to the next blank line."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "module.py").write_text(MODULE, encoding="utf-8")
    assert [
        "**package**",
        "",
        "| name | difference |",
        "| --- | --- |",
        "| `One` | tensorpack fails. This class works. |",
        r"| `One.method` | a \| b. |",
    ] == tool("differences_table").markdown(tmp_path).splitlines()


def test_corrected_defects(tmp_path):
    """Each row of the ledger that has a test is a row of the table, with the first of its tests."""
    file = tmp_path / "ledger.tsv"
    rows = [
        "row\twhat\ttest",
        "1\tA | b.\ttests/x.py::test_a tests/x.py::test_b",
        "2\tC.\tsee 1",
        "3\tD.\tdropped: why",
    ]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert [
        "| what tensorpack 0.11 does | test |",
        "| --- | --- |",
        r"| A \| b. | `tests/x.py::test_a` |",
    ] == tool("differences_table").defects(file).splitlines()
    assert 80 < len(tool("differences_table").defects().splitlines())


class TestInlineCode:
    def test_only_unique_names_are_linked(self):
        """A name that two modules define has no link, unless the other one is in trainv1."""
        names = ["lib.a.One", "lib.a.Two", "lib.b.Two", "lib.a.Three", "lib.trainv1.Three"]
        assert {"One": "lib.a.One", "Three": "lib.a.Three"} == tool("inline_code").targets(names)

    def test_places_to_break(self):
        """Long names break after punctuation and before capitals."""
        assert ["tests/", "test_", "some.", "py::", "Test", "One"] == tool("inline_code").parts(
            "tests/test_some.py::TestOne"
        )


@pytest.mark.parametrize(("package", "page"), [("callbacks", "callbacks.md"), ("predict", "inference_export.md")])
def test_a_page_lists_all_of_a_package(package, page):
    """The page of a package names each of its callbacks or predictors."""
    path = ROOT / "tensorpack_lite" / package / "__init__.py"
    (names,) = [
        ast.literal_eval(statement.value)
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "__all__"
    ]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [] == [name for name in names if not re.search(rf"`{name}\b", text)]


def test_every_page_is_in_the_index():
    """The index links every page."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines()
    pages = {file.stem for file in (ROOT / "docs").glob("*.md")} - {"index"}
    assert [] == sorted(page for page in pages if page not in index)


def test_every_extra_is_in_the_page_on_installing():
    """The page on installation names every extra of setup.py."""
    (extras,) = [
        statement.value.keys
        for statement in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "EXTRAS"
    ]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    names = [ast.literal_eval(key) for key in extras]
    assert len(names) > 5
    assert [] == [name for name in names if f"`{name}`" not in page]


def test_pages_say_how_to_install_tensorboard():
    """TensorFlow 2.21 does not install TensorBoard, so each page that advertises it explains how to install it."""
    silent = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        if "TensorBoard" in text and not re.search(r"pip install [^`]*tensorboard|`tensorboard`", text):
            silent.append(page.name)
    # index.md only leads to the page, and save_resume.md only says how TensorBoard shows two event files
    assert ["index.md", "save_resume.md"] == silent
