"""The built pages in a headless Chromium, on a wide screen and on a phone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.browser import PHONE, WIDE, headless_chromium, needs_chromium, set_width

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "docs" / "_build" / "html"  # where `tox -e docs` builds
FIND_TOO_WIDE = """
    const width = window.innerWidth, page = document.documentElement;
    if (page.scrollWidth <= width) return "";
    const beyond = [...document.querySelectorAll("article *")].filter(
        element => element.getBoundingClientRect().right > width);
    const last = beyond.length ? beyond[beyond.length - 1].outerHTML.slice(0, 200) : "?";
    return `is ${page.scrollWidth} pixels wide, for example because of ${last}`;
"""
IS_LAST_LINK_REACHABLE = """
    const links = document.querySelectorAll(".sidebar-tree a"), last = links[links.length - 1];
    last.scrollIntoView({block: "center", behavior: "instant"});
    const box = last.getBoundingClientRect();
    const top = document.elementFromPoint(box.left + 5, box.top + box.height / 2);
    return last === top || last.contains(top);
"""
OPEN_MENU = """
    document.head.insertAdjacentHTML("beforeend", "<style>* { transition: none !important }</style>");
    document.getElementById("__navigation").checked = true;
"""

pytestmark = [
    pytest.mark.slow,
    needs_chromium,
]


def is_up_to_date(directory: Path) -> bool:
    """Return whether a build is newer than everything that it is built from."""
    index = directory / "searchindex.js"
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs" / "_static").iterdir()]
    sources += (ROOT / "tensorpack_lite").rglob("*.py")
    return index.exists() and index.stat().st_mtime > max(path.stat().st_mtime for path in sources)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """All pages of the documentation; of the listings of source code, only the largest."""
    directory = BUILT
    if not is_up_to_date(BUILT):
        pytest.importorskip("sphinx", reason="sphinx is not installed, and docs/_build/html is out of date")
        directory = tmp_path_factory.mktemp("html")
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(ROOT / "docs"), str(directory)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    listings = sorted((directory / "_modules").rglob("*.html"), key=lambda path: path.stat().st_size)
    found = [path for path in directory.rglob("*.html") if "_modules" not in path.parts]
    # a redirect from an old address has no content
    found = [path for path in found if 'http-equiv="refresh"' not in path.read_text(encoding="utf-8")]
    assert len(found) > 30
    return [*sorted(found), listings[-1]]


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    yield from headless_chromium(webdriver)


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_pages_fit(browser, pages, width):
    """No page scrolls sideways, and the last entry of the menu can be reached on every page."""
    set_width(browser, width)
    broken = []
    for page in pages:
        browser.get(page.as_uri())
        problem = browser.execute_script(FIND_TOO_WIDE)
        if problem:
            broken.append(f"{page.name} {problem}")
        browser.execute_script(OPEN_MENU)
        if not browser.execute_script(IS_LAST_LINK_REACHABLE):
            broken.append(f"{page.name}: the last entry of the menu cannot be reached")
    assert [] == broken
