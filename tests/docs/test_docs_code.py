"""
Every block of Python code in README.md and docs/ runs.

Blocks of a page share a namespace and run from top to bottom, in a process and a directory of their own. A block that
cannot run is preceded by `<!-- not run: the reason -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow")

import tensorpack_lite

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(?P<note><!-- not run: (?P<reason>.*?) -->\s*)?```python\n(?P<code>.*?)```", re.DOTALL)


def script(page: Path) -> str:
    """All runnable blocks of a page as one program, with line numbers as in the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        if block.group("note"):
            assert len(block.group("reason")) > 10, "say why the block cannot run"
            continue
        first = text[: block.start("code")].count("\n")
        for number, line in enumerate(block.group("code").splitlines()):
            lines[first + number] = line
    # `from __future__` may only stand at the top, where the page is long past
    return "\n".join(line if "from __future__" not in line else "" for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if script(p).strip()], ids=lambda p: p.name)
def test_code_of_the_page_runs(page, tmp_path):
    """What a reader copies works."""
    program = tmp_path / f"{page.stem}.py"
    program.write_text(script(page), encoding="utf-8")
    environment = dict(
        os.environ, PYTHONPATH=str(Path(tensorpack_lite.__file__).parents[1]), TF_CPP_MIN_LOG_LEVEL="3"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=str(tmp_path),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stdout.decode()


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
