"""The rule of lint about methods of callbacks that nothing calls."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from fakes.linted import lint, marked_line

from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.diagnostics.lint.method_rules import _find_moment
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.moments import MOMENTS
from tensorpack_lite.models import FullyConnected


def remarks(*callbacks):
    """Return the remarks about a training with these callbacks."""
    with tf.Graph().as_default():
        return lint(lambda image, label: tf.reduce_mean(FullyConnected("fc", image, 1)), callbacks)


def test_method_of_keras():
    """A remark names the callback, the method, the line that defines it, and the moment of this library."""

    class Mine(Callback):
        def on_epoch_end(self) -> None:  # here
            pass

    (remark,) = remarks(Mine(), PeriodicTrigger(Mine(), every_k_epochs=2))
    assert ("G21", "Mine") == (remark.rule, remark.name)
    assert "`on_epoch_end` is never called." == remark.text
    assert "Did you mean `_trigger_epoch`?" == remark.advice
    assert remark.place.endswith(marked_line(Mine))


@pytest.mark.slow
def test_misspelt_moment_of_a_base_class():
    """A method with almost the name of a moment has a remark, also in a base class of the user."""

    class Base(Callback):
        def _before_epochs(self) -> None:
            pass

    class Mine(Base):
        def _trigger_step(self) -> None:
            pass

    (remark,) = remarks(Mine())
    assert ("Mine", "`_before_epochs` is never called.") == (remark.name, remark.text)
    assert "Did you mean `_before_epoch`?" == remark.advice


@pytest.mark.slow
@pytest.mark.parametrize("line", ["callback.on_train_end()", "getattr(callback, 'on_train_end')()", "on_train_end ("])
def test_method_that_the_script_calls(tmp_path, monkeypatch, line):
    """A method has no remark if another module of the user has its name, or cannot be parsed."""

    class Mine(Callback):
        def on_train_end(self) -> None:
            pass

    path = tmp_path / "module_that_calls.py"
    path.write_text("def end(callback):\n    pass\n")
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, path.stem, module)
    assert ["G21"] == [remark.rule for remark in remarks(Mine())]
    path.write_text(f"def end(callback):\n    {line}\n")
    assert [] == remarks(Mine())


def test_docstrings():
    """A docstring that is the name of a method does not count as its use."""

    class Misspelt(Callback):
        def _triger_epoch(self) -> None:
            """_triger_epoch"""

    assert ["G21"] == [remark.rule for remark in remarks(Misspelt())]


class OtherNames(Callback):
    """Has moments, and private methods with other names."""

    def _nothing(self) -> None:
        pass

    _setup_graph = _trigger = _trigger_save = _after_training_step = on_click = _nothing


class CallsItself(Callback):
    """Uses its method."""

    def _trigger(self) -> None:
        (lambda: self.on_batch_end())()

    def on_batch_end(self) -> None:
        pass


class Hooks:
    """A class of an installed package."""

    def on_train_begin(self) -> None:
        pass


Hooks.__module__ = "numpy"


class OfAnotherLibrary(Callback, Hooks):
    """Overrides a method of another library."""

    def on_train_begin(self) -> None:
        pass


class Both(Callback):
    """Defines the moment, too, so it may be meant for two libraries."""

    def on_epoch_end(self) -> None:
        pass

    def _trigger_epoch(self) -> None:
        pass


@pytest.mark.parametrize("make", [OtherNames, CallsItself, OfAnotherLibrary, Both])
def test_no_remark(make):
    """Methods that have other names, or that the callback or another library may call, have no remark."""
    assert [] == remarks(make())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("on_validation_end", "_trigger_epoch"),
        ("on_train_batch_start", "_before_run"),
        ("_trigger_epochs", "_trigger_epoch"),
        ("_setup_graphs", "_setup_graph"),
        ("_after_traim", "_after_train"),
        ("_trigger_epcoh", "_trigger_epoch"),
        ("_beffore_run", "_before_run"),
        ("_trigger_stemp", "_trigger_step"),
        ("_trigger_epoch", None),
        ("_trigger_stop", None),
        ("_trigger_steps_of", None),
        ("_after_epoch_2", None),
        ("_before_runner", None),
        ("trigger_epochs", None),
        ("_triggered", None),
        ("__trigger", None),
    ],
)
def test_names(name, expected):
    """Only names with a letter missing or too many, a wrong one at the end, two swapped or one doubled wrongly are misspelt."""
    assert expected == _find_moment(name)


@pytest.mark.parametrize("moment", [f"_{name}" for name in MOMENTS])
def test_a_missing_letter(moment):
    """A moment without any one of its letters is misspelt, but for the underscore at its beginning."""
    names = {moment[:place] + moment[place + 1 :] for place in range(1, len(moment))}
    assert {moment} == set(map(_find_moment, names))
