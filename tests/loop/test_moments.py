"""loop/moments.py: the table of moments, and what a new row needs elsewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tensorpack_lite.callbacks.trigger import EnableCallbackIf
from tensorpack_lite.loop import callback as callback_module
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.moments import MOMENTS, OWED, REPEATED, Moment, after_step, after_steps, of_step
from tensorpack_lite.loop.proxy_callback import ProxyCallback
from tensorpack_lite.loop.resume_point import ResumePoint
from tensorpack_lite.train.trainer import Trainer

ROOT = Path(__file__).parents[2]
ELSEWHERE = {  # moments that the loop does not call, and where they are called
    "setup_graph": "Trainer.setup_callbacks",
    "before_run": "HookedSession",
    "after_run": "HookedSession",
    "trigger": "Callback._trigger_epoch",
}


def test_every_pair_of_methods_has_a_row():
    """Each method of Callback that calls its twin with an underscore is a moment."""
    pairs = [name for name in vars(Callback) if f"_{name}" in vars(Callback) and name != "chief_only"]
    missing = set(pairs) - set(MOMENTS)
    assert not missing, f"Add a row Moment({missing.pop()!r}) to MOMENTS in loop/moments.py."


@pytest.mark.parametrize("name", MOMENTS)
def test_a_row_is_complete(name):
    """Each moment has its methods, its call, and its place in the drawing and in the docs."""
    assert f"_{name}" in vars(Callback), f"Add `def _{name}(self)` to Callback, which calls self._forward({name!r})."
    assert name in vars(Callback), f"Add `def {name}(self)` to Callback, which calls self._{name}()."
    drawn = re.search(rf"\b_{name}\b", callback_module.__doc__)
    assert drawn, f"Add _{name} to the drawing at the top of loop/callback.py."
    page = (ROOT / "docs/callbacks.md").read_text()
    assert f"`_{name}`" in page, f"Add a row for `_{name}` to the table of moments in docs/callbacks.md."
    if name not in ELSEWHERE:
        loop = inspect.getsource(Trainer.main_loop)
        assert f"callbacks.{name}()" in loop, f"Call callbacks.{name}() in Trainer.main_loop of train/trainer.py."


def test_the_order_is_that_of_the_loop():
    """The rows have the order in which the loop calls the moments."""
    called = re.findall(r"callbacks\.(\w+)\(\)", inspect.getsource(Trainer.main_loop))
    assert [name for name in MOMENTS if name not in ELSEWHERE] == called


def test_values():
    """`at_resume` and `period` have few values, and a training can resume inside each moment of a step."""
    assert {row.at_resume for row in MOMENTS.values()} == {"", REPEATED, OWED}
    assert {row.period for row in MOMENTS.values()} == {"", "epoch", "step", "run"}
    for name in of_step():
        message = (
            f"Moment({name!r}): a checkpoint saved in it would lose or repeat calls in a step. Set at_resume to OWED."
        )
        assert MOMENTS[name].at_resume == OWED, message


@pytest.fixture
def add_moment(monkeypatch):
    """Return a function that adds a row to the table, and its methods to Callback."""
    rows = dict(MOMENTS)

    def add(row, before):
        names = list(rows)
        names.insert(names.index(before), row.name)
        MOMENTS.clear()
        MOMENTS.update((name, rows.get(name, row)) for name in names)
        monkeypatch.setattr(Callback, f"_{row.name}", lambda self: self._forward(row.name), raising=False)
        monkeypatch.setattr(Callback, row.name, lambda self: getattr(self, f"_{row.name}")(), raising=False)

    yield add
    MOMENTS.clear()
    MOMENTS.update(rows)


class Between(Callback):
    """A callback that notes the calls of `between`, `trigger_step` and `trigger_epoch`."""

    def __init__(self, name, calls) -> None:
        self.name, self.calls = name, calls

    def _between(self):
        self.calls.append(f"between {self.name}")

    def _trigger_step(self):
        self.calls.append(f"step {self.name}")

    def _trigger_epoch(self):
        self.calls.append(f"epoch {self.name}")


@pytest.mark.parametrize("at_resume", ["", REPEATED, OWED])
class TestANewMoment:
    """A moment at the end of an epoch that only has a row and its methods of Callback."""

    @pytest.fixture(autouse=True)
    def new(self, at_resume, add_moment):
        """Add the moment before `trigger_epoch`, and a group of two callbacks."""
        add_moment(Moment("between", "epoch", at_resume, is_checked=True), "trigger_epoch")
        self.calls = []
        self.group = Callbacks([Between("a", self.calls), ProxyCallback(Between("b", self.calls)), Callback()])

    def test_groups_and_proxies_forward_it(self):
        """Groups call each callback, and proxies the one inside."""
        self.group.between()
        assert ["between a", "between b"] == self.calls

    @pytest.mark.parametrize("is_enabled", [False, True])
    def test_conditions_apply(self, is_enabled):
        """EnableCallbackIf forwards it if the condition holds."""
        EnableCallbackIf(self.group.cbs[0], lambda self: is_enabled).between()
        assert is_enabled == bool(self.calls)

    def test_the_current_call(self):
        """The call in progress is known, and the end of training is checked before each."""
        self.group.check = lambda: self.calls.append("check")
        self.group.cbs[0]._between = lambda: self.calls.append(self.group.current_call.moment)
        self.group.between()
        assert ["check", "_between", "check", "between b", "check"] == self.calls
        assert self.group.current_call is None

    def test_where_training_resumes(self, at_resume):
        """A checkpoint that the first callback saves says how many calls are left."""
        places = []
        self.group.before_train()
        self.group.trigger_step()
        self.group.cbs[0]._between = lambda: places.append((self.group.phase, self.group.num_called))
        self.group.between()
        expected = {"": ("trigger_step", 3), REPEATED: ("between", 3), OWED: ("between", 1)}
        assert [expected[at_resume]] == places

    def test_owed_calls(self, at_resume):
        """A training that resumes there makes the calls that were left, or all of them; then all of them each time."""
        phase = "between" if at_resume else "trigger_step"
        self.group.resume_at(phase, 1 if at_resume == OWED else 3, {})
        self.group.before_train()
        self.group.before_epoch()
        self.group.between()
        assert self.calls == ["between a", "between b"][at_resume == OWED :]
        self.group.between()
        assert self.calls[-2:] == ["between a", "between b"]

    def test_is_not_called_again_from_a_later_place(self, at_resume):
        """A training that resumes at a later moment owes nothing of this one; only if that is repeated in any case, it is called."""
        self.group.resume_at("trigger_epoch", 1, {})
        self.group.before_train()
        self.group.before_epoch()
        self.group.between()
        self.group.trigger_epoch()
        assert [call for call in self.calls if "epoch" in call] == ["epoch b"]
        assert ("between a" in self.calls) == (at_resume != OWED)

    def test_the_epoch_of_its_place(self, at_resume):
        """A checkpoint that was saved after the steps belongs to an epoch whose steps are done."""
        if at_resume:
            place = ResumePoint(3, 5, 5, 15, "between", ["a", "b"], 1)
            assert 4 == place.starting_epoch
            assert place._replace(num_called=2) == place.with_phase_finished()
            finished = place._replace(phase="trigger_epoch").with_phase_finished()
            assert ("before_epoch", 4, 0) == (finished.phase, finished.epoch_num, finished.num_steps)
            assert place._replace(num_called=2).has_triggers_left  # those of `trigger_epoch`


def test_a_new_moment_after_each_step(add_moment):
    """The calls of that moment and of `trigger_step` that were left follow `before_epoch`."""
    add_moment(Moment("between", "step", OWED), "trigger_step")
    calls = []
    group = Callbacks([Between("a", calls), Between("b", calls)])
    group.resume_at("between", 1, {})
    group.before_train()
    group.before_epoch()
    assert ["between b", "step a", "step b"] == calls
    assert ("trigger_step", 2) == (group.phase, group.num_called)
    group.between()
    assert ["between a", "between b"] == calls[3:]


class TestANewMomentBeforeEachStep:
    """A moment of each step, before it, that only has a row and its methods of Callback."""

    @pytest.fixture(autouse=True)
    def new(self, add_moment):
        """Add the moment, and a group of two callbacks."""
        add_moment(Moment("between", "step", OWED, is_checked=True), "before_run")
        self.calls = []
        self.group = Callbacks([Between("a", self.calls), Between("b", self.calls)])

    def test_owed_calls(self):
        """A training that resumes there makes the calls that were left before the first step, and all of them afterwards."""
        self.group.resume_at("between", 1, {})
        self.group.before_train()
        self.group.before_epoch()
        assert [] == self.calls
        for _ in range(2):
            self.group.between()
            self.group.trigger_step()
        assert ["between b", "step a", "step b", "between a", "between b", "step a", "step b"] == self.calls

    def test_owes_nothing_at_a_later_place(self):
        """A training that resumes after a step calls all callbacks before the next one."""
        self.group.resume_at("trigger_step", 1, {})
        self.group.before_train()
        self.group.before_epoch()
        self.group.between()
        assert ["step b", "between a", "between b"] == self.calls

    def test_signals(self):
        """The end of training is checked before each call, and before the step, with the number of calls made."""
        checks = []
        self.group.check = lambda: checks.append((self.group.phase, self.group.num_called))
        self.group.before_train()
        self.group.between()
        assert [("between", number) for number in range(3)] == checks

    def test_idle_callbacks_are_left_out(self):
        """A callback without the method is not called at each step, and functions that replace calls get the others."""
        group, seen = Callbacks([Callback(), self.group.cbs[0]]), []
        group.before_train()
        group.replace_calls(lambda call, method: lambda: seen.append(call.moment))
        group.between()
        assert ["_between"] == seen

    def test_epochs_of_another_length(self):
        """The place stays before the same step, also if that is the first one of an epoch; without steps, none follows."""
        place = ResumePoint(3, 2, 5, 12, "between", ["a", "b"], 1)
        assert place._replace(epoch_num=4, num_steps=0, steps_per_epoch=4) == place.with_steps_per_epoch(4)
        assert ("before_epoch", 2) == place.with_steps_per_epoch(0)[4::2]
        assert not place.has_triggers_left


@pytest.mark.parametrize("phase", [name for name, row in MOMENTS.items() if row.at_resume])
def test_whether_triggers_are_left(phase):
    """Triggers are left after a step or an epoch; where all callbacks were called, only if another such moment follows."""
    place = ResumePoint(1, 1, 4, 1, phase, ["a", "b"], 2)
    assert (phase in after_step()[:-1] + after_steps()[:-1]) == place.has_triggers_left
    assert (phase in after_step() + after_steps()) == place._replace(num_called=1).has_triggers_left
