"""Deprecation, and stand-ins."""

from __future__ import annotations

import sys

import pytest

from tensorpack_lite.utils import develop
from tensorpack_lite.utils.develop import (
    HIDE_DOC,
    building_rtfd,
    create_dummy_class,
    create_dummy_func,
    deprecated,
    log_deprecated,
)


@pytest.fixture(autouse=True)
def forget_warnings():
    develop._warning_numbers.cache_clear()


def warnings(capsys) -> list:
    return [line.split("] WRN ")[1] for line in capsys.readouterr().out.splitlines()]


class TestDeprecated:
    def test_warns_with_the_calling_line(self, capsys):
        """What, where it was called, until when, and what instead."""

        @deprecated("Use new() instead.", "2030-01-31")
        def old(x, y=0):
            """It is old."""
            return x + y

        line = sys._getframe().f_lineno + 1
        result = old(1, y=2)

        assert 3 == result
        assert [
            f"[Deprecated] old [test_develop.py:{line}] is deprecated and will be removed after 31 Jan 2030. "
            "Use new() instead."
        ] == warnings(capsys)
        assert "It is old." == old.__doc__

    def test_number_of_warnings(self, capsys):
        """Per calling line, no more than so many."""

        @deprecated("Use new().", max_num_warnings=2)
        def old():
            pass

        for _ in range(5):
            old()

        assert 2 == len(warnings(capsys))

    def test_date(self):
        """A date that is none is an error where it is written."""
        with pytest.raises(ValueError, match="eos must be a date 'YYYY-MM-DD', got '31.1.2030'"):
            deprecated("Use new().", "31.1.2030")


class TestLogDeprecated:
    def test_forms(self, capsys):
        """With a name, with a text, with both; soon, or after a date."""
        log_deprecated("old")
        log_deprecated(text="Old is bad.")
        log_deprecated("old", "Use new.", "2030-01-31")

        assert [
            "[Deprecated] old is deprecated and will be removed soon. ",
            "[Deprecated] Old is bad.",
            "[Deprecated] old is deprecated and will be removed after 31 Jan 2030. Use new.",
        ] == warnings(capsys)

    def test_number_of_warnings(self, capsys):
        """Counted for each name."""
        for _ in range(3):
            log_deprecated("old", max_num_warnings=1)
            log_deprecated("older", max_num_warnings=1)

        assert 2 == len(warnings(capsys))

    def test_says_something(self):
        """Nothing to say is an error."""
        with pytest.raises(ValueError, match="needs a name or a text"):
            log_deprecated(eos="2030-01-31")


@pytest.mark.parametrize("create", [create_dummy_class, create_dummy_func])
class TestDummy:
    def test_call(self, create):
        """Using it names itself and the dependency."""
        with pytest.raises(
            ImportError, match="Cannot import 'cv2', therefore 'ImageFromFile' is not available"
        ):
            create("ImageFromFile", "cv2")(1, x=2)

    def test_attribute(self, create):
        """So does asking for an attribute, e.g. a static method."""
        with pytest.raises(AttributeError, match="Cannot import 'lmdb', therefore 'LMDBSerializer'"):
            create("LMDBSerializer", "lmdb").save  # noqa: B018


@pytest.mark.parametrize(
    ("variables", "building"),
    [
        ({}, False),
        ({"READTHEDOCS": "True"}, True),
        ({"READTHEDOCS": "False"}, False),
        ({"DOC_BUILDING": "1"}, True),
    ],
)
def test_building_rtfd(monkeypatch, variables, building):
    """Two variables say that the documentation is being built."""
    for name in ("READTHEDOCS", "DOC_BUILDING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert building == building_rtfd()


def test_hide_doc():
    """The mark leaves the function alone."""

    def function():
        pass

    assert HIDE_DOC(function) is function
