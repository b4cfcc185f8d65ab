"""
The Python code in README.md and docs/ runs.

The code blocks of a page run from top to bottom as one program, in a separate process and directory. The comment
`<!-- not run: reason -->` before a block marks a block that cannot run, `<!-- file: name -->` one that is a separate file.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from fakes.programs import program_runner

pytest.importorskip("tensorflow")

from tensorpack_lite.compat import TF_VERSION

ROOT = Path(__file__).resolve().parents[2]
EXPORT = ROOT / "docs" / "inference_export.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?P<note><!-- (?P<kind>not run|file): (?P<what>[^>]*?) -->\s*)?```python\n(?P<code>.*?)```", re.DOTALL
)
SERVED = pytest.mark.parametrize(
    "program",
    [
        "serve_frozen.py",
        "serve_saved_model.py",
        pytest.param("serve_eager.py", marks=pytest.mark.skipif(TF_VERSION < (2, 0), reason="TF 2")),
    ],
)


def script(page: Path) -> str:
    """Return the runnable blocks of a page as one program, with the same line numbers as in the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        if block.group("note"):
            assert block.group("kind") == "file" or len(block.group("what")) > 10, "give the reason why it cannot run"
            continue
        first = text[: block.start("code")].count("\n")
        for number, line in enumerate(block.group("code").splitlines()):
            lines[first + number] = line
    # `from __future__` is a syntax error below the first block
    return "\n".join(line if "from __future__" not in line else "" for line in lines)


@pytest.fixture(scope="module")
def runner():
    """A server process that has imported TensorFlow and forks for each program."""
    with program_runner(has_seed=True) as started:
        yield started


def run_page(runner, page: Path, directory: Path) -> None:
    """Write the files of a page, and run its other blocks."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block.group("kind") == "file":
            (directory / block.group("what")).write_text(block.group("code"), encoding="utf-8")
    (directory / f"{page.stem}.py").write_text(script(page), encoding="utf-8")
    runner.run(directory, f"{page.stem}.py")


@pytest.fixture(scope="module")
def exported(runner, tmp_path_factory):
    """The directory in which the code of the page on export has run."""
    directory = tmp_path_factory.mktemp("export")
    run_page(runner, EXPORT, directory)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if script(p).strip() and p != EXPORT], ids=lambda p: p.name)
def test_code_of_the_page_runs(runner, page, tmp_path):
    """The code of each page runs without an error."""
    run_page(runner, page, tmp_path)


@pytest.mark.slow
@SERVED
def test_the_exported_model_is_served_without_this_library(runner, exported, program):
    """The serving programs of the page on export find the outputs of the predictor without importing the library."""
    check = exported / f"check_{program}"
    check.write_text(
        f"import runpy, sys\nrunpy.run_path({program!r})\nassert 'tensorpack_lite' not in sys.modules\n",
        encoding="utf-8",
    )
    runner.run(exported, check.name)


def test_relative_links_exist():
    """Each relative link leads to an existing file."""
    broken = []
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert [] == broken


def test_old_addresses_lead_to_pages():
    """Each redirect in docs/conf.py leads from a page that no longer exists to an existing page."""
    tree = ast.parse((ROOT / "docs" / "conf.py").read_text(encoding="utf-8"))
    tables = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "redirects"
    ]
    assert 1 == len(tables)
    for old, new in tables[0].items():
        page = new.partition(".html")[0]
        assert (ROOT / "docs" / f"{page}.md").exists(), new
        assert not (ROOT / "docs" / f"{old}.md").exists(), old


def test_the_two_commands_are_in_the_readme():
    """README has the demo command and the test command on one line each. `.ci/run` reads the test command."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    for name in ("demo", "test"):
        assert 1 == len([line for line in lines if line.endswith(f".venv/bin/tox -e {name}")])
