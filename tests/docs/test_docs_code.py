"""
Every block of Python code in README.md and docs/ runs.

Blocks of a page share a namespace and run from top to bottom, in a process and a directory of their own. A block that
cannot run is preceded by `<!-- not run: the reason -->`; one that is a program of its own by `<!-- file: its name -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from fakes.programs import program_runner

pytest.importorskip("tensorflow")

import tensorpack_lite
from tensorpack_lite.compat import TF_VERSION

ROOT = Path(__file__).resolve().parents[2]
EXPORT = ROOT / "docs" / "inference_export.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?P<note><!-- (?P<kind>not run|file): (?P<what>[^>]*?) -->\s*)?```python\n(?P<code>.*?)```", re.DOTALL
)
SERVED = pytest.mark.parametrize(
    ("program", "outputs"),
    [
        ("serve_frozen.py", "frozen.npy"),
        ("serve_saved_model.py", "saved_model.npy"),
        pytest.param(
            "serve_eager.py", "eager.npy", marks=pytest.mark.skipif(TF_VERSION < (2, 0), reason="TF 2")
        ),
    ],
)


def script(page: Path) -> str:
    """All runnable blocks of a page as one program, with line numbers as in the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        if block.group("note"):
            assert block.group("kind") == "file" or len(block.group("what")) > 10, "say why it cannot run"
            continue
        first = text[: block.start("code")].count("\n")
        for number, line in enumerate(block.group("code").splitlines()):
            lines[first + number] = line
    # `from __future__` may only stand at the top, where the page is long past
    return "\n".join(line if "from __future__" not in line else "" for line in lines)


@pytest.fixture(scope="module")
def runner():
    """A process that has TensorFlow imported and forks for each program."""
    with program_runner() as started:
        yield started


def run_page(runner, page: Path, directory: Path) -> None:
    """Run a page's blocks; its programs are written, not run."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block.group("kind") == "file":
            (directory / block.group("what")).write_text(block.group("code"), encoding="utf-8")
    (directory / f"{page.stem}.py").write_text(script(page), encoding="utf-8")
    runner.run(directory, f"{page.stem}.py")


@pytest.fixture(scope="module")
def exported(runner, tmp_path_factory):
    """The directory in which the page on export has run."""
    directory = tmp_path_factory.mktemp("export")
    run_page(runner, EXPORT, directory)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if script(p).strip() and p != EXPORT], ids=lambda p: p.name
)
def test_code_of_the_page_runs(runner, page, tmp_path):
    """What a reader copies works."""
    run_page(runner, page, tmp_path)


@pytest.mark.slow
@SERVED
def test_the_exported_model_is_served_without_this_library(runner, exported, program, outputs):
    """The programs of the page on export, in processes that do not load it, give the outputs of training's process."""
    check = exported / f"check_{program}"
    check.write_text(
        f"import runpy, sys\nrunpy.run_path({program!r})\nassert 'tensorpack_lite' not in sys.modules\n",
        encoding="utf-8",
    )
    runner.run(exported, check.name)

    np.testing.assert_allclose(
        np.load(exported / "expected.npy"), np.load(exported / outputs), rtol=0, atol=1e-5
    )


def test_links_between_pages_lead_somewhere():
    """A relative link names a file that is there."""
    broken = []
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert [] == broken


def test_changelog_begins_with_this_version():
    """The first version in CHANGELOG.md below UNRELEASED is the package's, or there is no release yet."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in text
    versions = re.findall(r"^## \[(\d[^\]]*)\]", text, re.MULTILINE)
    assert [tensorpack_lite.__version__] == versions[:1] or not versions


def test_the_two_commands_stand_in_the_readme():
    """`.ci/run` reads the test command from there; each is one line."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    for name in ("demo", "test"):
        assert 1 == len([line for line in lines if line.endswith(f".venv/bin/tox -e {name}")])
