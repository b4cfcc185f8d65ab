"""Tests for `utils.brief_traceback`: frames of the libraries are omitted, those of the user are kept."""

from __future__ import annotations

import json
import traceback

import pytest

from tensorpack_lite.utils import checks
from tensorpack_lite.utils.brief_traceback import shorten_stacks, shorten_traceback
from tensorpack_lite.utils.checks import check_at_least


def functions_in(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def caught(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001 (the error under test)
        return error


def fails():
    check_at_least("Model: width", 0, 1)


def decodes():
    json.loads("{", object_hook=lambda found: found)


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def library_raises(kind, text, cause):
    """Return an error that a function of the library seems to raise for another one."""
    code = compile("def raise_again():\n    raise kind(text) from cause", json.__file__, "exec")
    names = {"kind": kind, "text": text, "cause": cause}
    exec(code, names)
    return caught(names["raise_again"])


class TestShortenTraceback:
    def test_frames(self):
        """The innermost frame stays, whoever it belongs to, and all frames of the user."""
        error = caught(decodes)
        before = functions_in(error)
        left_out = shorten_traceback(error)
        assert ["caught", "decodes", before[-1]] == functions_in(error)
        assert left_out == len(before) - 3 > 0

    def test_the_user_raises(self):
        """A traceback of the user's frames only does not change."""
        error = caught(lambda: 1 / 0)
        assert 0 == shorten_traceback(error)
        assert ["caught", "<lambda>"] == functions_in(error)

    def test_an_error_with_more_words(self):
        """An error that the library has raised for another one, with the same text and more, is merged with it."""
        error = library_raises(ValueError, "MapData: f failed: Model: width is 0", ValueError("width is 0"))
        shorten_traceback(error)
        assert error.__cause__ is None

    def test_merged_frames(self):
        """The merged error has the user's frames of both, and the cause of the inner one."""
        inner = caught(fails)
        inner.__cause__ = origin = KeyError("origin")
        error = library_raises(ValueError, f"outer: {inner}", inner)
        shorten_traceback(error)
        assert ["caught", "caught", "fails", functions_in(error)[-1]] == functions_in(error)
        assert error.__cause__ is origin

    @pytest.mark.parametrize(
        "cause", [ValueError("something else"), KeyError(), Unreadable()], ids=lambda one: type(one).__name__
    )
    def test_another_text(self, cause):
        """A cause that says something else is shown."""
        error = library_raises(ValueError, "a mistake", cause)
        shorten_traceback(error)
        assert error.__cause__ is cause

    def test_an_error_of_the_user_for_another(self):
        """An error that the user raises for another one is not merged."""

        def wraps():
            try:
                fails()
            except ValueError as error:
                raise RuntimeError(f"my model: {error}") from error

        error = caught(wraps)
        shorten_traceback(error)
        assert isinstance(error.__cause__, ValueError)

    def test_a_circle(self):
        """Errors that are each other's cause end."""
        first, second = caught(fails), caught(decodes)
        first.__cause__, second.__cause__ = second, first
        assert shorten_traceback(first) > 0

    def test_all_frames(self, monkeypatch):
        """With TENSORPACK_LITE_FULL_TRACEBACK, nothing changes."""
        monkeypatch.setenv("TENSORPACK_LITE_FULL_TRACEBACK", "1")
        error = caught(decodes)
        before = functions_in(error)
        assert 0 == shorten_traceback(error)
        assert before == functions_in(error)


class TestShortenStacks:
    USER = '  File "/home/me/train.py", line 3, in build_graph\n'
    SOURCE = "    x = tf.gather(x, y)\n"
    LIBRARY = '  File "/usr/lib/python3/site-packages/tensorflow/python/ops.py", line 9, in gather\n'

    @pytest.mark.parametrize("source", ["", SOURCE], ids=["TF 2", "TF 1.15"])
    def test_lines(self, source):
        """Lines of TensorFlow's frames are omitted, with their source; all others stay."""
        text = f"indices[0]\n{self.USER}{source}{self.LIBRARY}{source}Node: 'x'\n{self.LIBRARY}{source}"
        assert f"indices[0]\n{self.USER}{source}Node: 'x'\n" == shorten_stacks(text)

    def test_a_path_without_its_beginning(self):
        """TF 1.15 leaves out the beginning that all paths share, e.g. the first slash."""
        path = checks.__file__[1:]
        assert f"{self.USER}end" == shorten_stacks(f'{self.USER}  File "{path}", line 1, in f\n    f()\nend')

    def test_other_text(self):
        """A message without stacks stays as it is."""
        assert "no File here\n  at all" == shorten_stacks("no File here\n  at all")
