"""Tests for `utils.uncaught`: what `sys.excepthook` prints after an error of a training."""

from __future__ import annotations

import json
import sys

import pytest

from tensorpack_lite.utils.brief_traceback import EndsBriefly, end_briefly


@pytest.fixture
def shown(monkeypatch):
    """The errors that the hook of before has got."""
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, traceback: shown.append((error, traceback)))
    return shown


def call_hook(error):
    sys.excepthook(type(error), error, error.__traceback__)


def leave(error):
    with pytest.raises(type(error)), EndsBriefly():
        raise error


class TestEndsBriefly:
    def test_no_error(self, shown):
        """Without an error, `sys.excepthook` stays."""
        before = sys.excepthook
        with EndsBriefly():
            pass
        assert before is sys.excepthook

    def test_an_error(self, shown, capsys):
        """The hook of before gets the error with the short traceback, after a line about the frames that are omitted."""
        with pytest.raises(ValueError, match="Expecting") as caught, EndsBriefly():
            json.loads("{")
        call_hook(caught.value)
        [(error, traceback)] = shown
        assert caught.value is error
        assert error.__traceback__ is traceback
        assert "frames of tensorpack_lite, TensorFlow and Python are hidden" in capsys.readouterr().err

    def test_ctrl_c(self, shown, capsys):
        """A KeyboardInterrupt prints one line."""
        error = KeyboardInterrupt()
        leave(error)
        call_hook(error)
        assert "KeyboardInterrupt: Ctrl-C ended the training.\n" == capsys.readouterr().err
        assert not shown

    def test_ctrl_c_elsewhere(self, shown):
        """A KeyboardInterrupt that did not end a training is printed as before."""
        leave(ValueError())
        error = KeyboardInterrupt()
        call_hook(error)
        assert [(error, None)] == shown

    def test_once(self, shown):
        """A second error installs no second hook."""
        end_briefly()
        first = sys.excepthook
        end_briefly()
        assert first is sys.excepthook

    def test_a_stack_of_tensorflow(self, monkeypatch, capsys):
        """The stacks in the message are shortened, too."""
        monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
        end_briefly()
        call_hook(ValueError('bad\n  File "/x/site-packages/tensorflow/ops.py", line 1, in f\nend'))
        assert "ValueError: bad\nend\n" == capsys.readouterr().err
