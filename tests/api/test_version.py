"""The version agrees with the changelog."""

from __future__ import annotations

import re
from pathlib import Path

from tensorpack_lite import __version__

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"


def headings() -> list:
    """Return `(version, date)` of each section of the changelog, newest first; the date of unreleased changes is ""."""
    text = CHANGELOG.read_text(encoding="utf-8")
    return re.findall(r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)


def test_the_changelog_begins_with_unreleased_changes():
    """The first section is for unreleased changes; every other section has a version and a date."""
    first, *releases = headings()
    assert ("Unreleased", "") == first
    assert [] == [version for version, date in releases if not date]


def test_the_version_follows_the_changelog():
    """
    `__version__` is the newest version in the changelog. While there are unreleased changes, it is a development version of
    a later one.
    """
    text = CHANGELOG.read_text(encoding="utf-8")
    unreleased = text.split("## [Unreleased]")[1].split("\n## ")[0].strip()
    newest = headings()[1][0]
    if not unreleased:
        assert __version__ == newest
    else:
        planned, _, number = __version__.partition(".dev")
        assert number.isdigit()
        assert [int(part) for part in planned.split(".")] > [int(part) for part in newest.split(".")]


def test_every_section_has_a_heading():
    """A misspelt heading of a version would not be found by the tests above."""
    lines = CHANGELOG.read_text(encoding="utf-8").splitlines()
    assert len(headings()) == len([line for line in lines if line.startswith("## ")])
