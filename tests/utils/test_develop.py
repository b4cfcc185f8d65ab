"""Deprecation warnings, and placeholders for missing dependencies."""

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
        """The warning names the function, the calling line, the date of the removal and the replacement."""

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
        """Each calling line has its own maximum number of warnings."""

        @deprecated("Use new().", max_num_warnings=2)
        def old():
            pass

        for _ in range(5):
            old()

        assert 2 == len(warnings(capsys))

    def test_date(self):
        """An invalid date raises a ValueError at the definition."""
        with pytest.raises(ValueError, match=r"eos is not a date \(expected 'YYYY-MM-DD', got '31.1.2030'\)"):
            deprecated("Use new().", "31.1.2030")


class TestLogDeprecated:
    def test_forms(self, capsys):
        """The warning has a name, a text or both, and a date if there is one."""
        log_deprecated("old")
        log_deprecated(text="Old is bad.")
        log_deprecated("old", "Use new.", "2030-01-31")

        assert [
            "[Deprecated] old is deprecated and will be removed soon. ",
            "[Deprecated] Old is bad.",
            "[Deprecated] old is deprecated and will be removed after 31 Jan 2030. Use new.",
        ] == warnings(capsys)

    def test_without_a_name_and_a_text(self):
        """A warning without a name and a text raises a ValueError."""
        with pytest.raises(ValueError, match="name and text are both empty"):
            log_deprecated(eos="2030-01-31")

    def test_number_of_warnings(self, capsys):
        """Each name has its own maximum number of warnings."""
        for _ in range(3):
            log_deprecated("old", max_num_warnings=1)
            log_deprecated("older", max_num_warnings=1)

        assert 2 == len(warnings(capsys))


@pytest.mark.parametrize("create", [create_dummy_class, create_dummy_func])
class TestDummy:
    def test_call(self, create):
        """Calling the placeholder raises an ImportError that names it and the dependency."""
        with pytest.raises(ImportError, match="Cannot import 'cv2', therefore 'ImageFromFile' is not available"):
            create("ImageFromFile", "cv2")(1, x=2)

    def test_attribute(self, create):
        """Reading an attribute of the placeholder raises an AttributeError."""
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
    """Two environment variables indicate that the documentation is being built."""
    for name in ("READTHEDOCS", "DOC_BUILDING"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert building == building_rtfd()


def test_hide_doc():
    """`HIDE_DOC` returns the function."""

    def function():
        pass

    assert HIDE_DOC(function) is function
