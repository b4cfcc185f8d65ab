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


def test_the_version_is_the_newest_in_the_changelog():
    """`__version__` is the newest version in the changelog."""
    assert __version__ == headings()[1][0]


def test_every_section_has_a_heading():
    """A misspelt heading of a version would not be found by the tests above."""
    lines = CHANGELOG.read_text(encoding="utf-8").splitlines()
    assert len(headings()) == len([line for line in lines if line.startswith("## ")])
