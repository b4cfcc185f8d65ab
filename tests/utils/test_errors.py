"""The sentences of errors, and the stand-in for a package."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils.errors import rebuild_error, type_error


class OwnError(Exception):
    """Its constructor takes two arguments."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class TestTypeError:
    def test_sentence(self):
        """Who, wanted, got, what to do."""
        error = type_error("QueueInput", "a DataFlow", [1], "Wrap it.")

        assert isinstance(error, TypeError)
        assert "QueueInput: takes a DataFlow, got list. Wrap it." == str(error)

    def test_without_advice(self):
        """No blank at the end."""
        assert "f: takes a path, got NoneType." == str(type_error("f", "a path", None))


class TestRebuildError:
    @pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, AssertionError, ZeroDivisionError])
    def test_keeps_the_type_and_names_the_stage(self, kind):
        """The same type, with the stage before the text."""
        error = rebuild_error(kind("bad"), "MapData")

        assert type(error) is kind
        assert ("MapData: bad",) == error.args

    def test_without_text(self):
        """An error without a text gets its type's name as text."""
        assert "MapData: ValueError" == str(rebuild_error(ValueError(), "MapData"))

    @pytest.mark.parametrize(
        "error",
        [
            OSError(2, "no such file"),
            UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
            OwnError(1, 2),
            ValueError(3),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_what_cannot_be_rebuilt_stays(self, error):
        """Errors that hold more than one text are given back as they are."""
        assert rebuild_error(error, "MapData") is error
