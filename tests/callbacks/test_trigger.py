"""PeriodicTrigger, EnableCallbackIf, PeriodicCallback and PeriodicRunHooks: when the inner callback runs."""

from __future__ import annotations

from functools import partial

import pytest
from fakes.recording import RecordingCallback
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.trigger import (
    EnableCallbackIf,
    PeriodicCallback,
    PeriodicRunHooks,
    PeriodicTrigger,
)
from tensorpack_lite.loop.callback import Callback


@pytest.mark.parametrize(
    ("make", "moment", "steps", "epochs", "expected"),
    [
        (
            partial(PeriodicTrigger, every_k_steps=3, every_k_epochs=2, before_train=True),
            "trigger",
            2,
            4,
            [(0, 0), (2, 3), (2, 4), (3, 6), (4, 8)],
        ),
        # a step and an epoch that are due at once trigger once
        (partial(PeriodicTrigger, every_k_steps=2, every_k_epochs=1), "trigger", 2, 3, [(1, 2), (2, 4), (3, 6)]),
        (partial(PeriodicCallback, every_k_epochs=3), "trigger", 2, 4, [(3, 6), (4, 8)]),  # also at the end of training
        (partial(PeriodicCallback, every_k_steps=3), "trigger_step", 4, 2, [(1, 3), (2, 6)]),
        (partial(PeriodicCallback, every_k_steps=3), "trigger_epoch", 4, 1, []),
    ],
)
def test_when_the_inner_callback_is_called(make, moment, steps, epochs, expected):
    """The inner callback is called at the steps and epochs that are multiples of the periods."""
    inner = RecordingCallback()
    run(CountingTrainer(), [make(inner)], steps=steps, epochs=epochs)
    assert expected == inner.times(moment)


class TestPeriodicTrigger:
    def test_the_inner_trigger_epoch_is_not_called(self):
        """The inner callback's trigger_epoch is not called."""
        inner = RecordingCallback()
        run(CountingTrainer(), [PeriodicTrigger(inner, every_k_epochs=2)])

        assert 0 == inner.calls.count("trigger_epoch")
        assert 1 == inner.calls.count("trigger")

    def test_other_moments_pass(self):
        """Every method except trigger_epoch is called on the inner callback as often as without the wrapper."""
        inner, plain = RecordingCallback(), RecordingCallback()
        run(CountingTrainer(), [plain, PeriodicTrigger(inner, every_k_epochs=1)])

        assert [m for m in plain.calls if m != "trigger_epoch"] == inner.calls

    def test_fetches_of_the_inner_one_arrive(self):
        """Tensors that the inner callback requests in before_run are evaluated for it."""
        inner = RecordingCallback(names=["cost:0"])
        run(CountingTrainer(), [PeriodicTrigger(inner, every_k_epochs=1)], steps=3, epochs=1)

        assert [[0.0], [10.0], [20.0]] == inner.results

    def test_chief_only_is_copied_when_made(self):
        """chief_only is copied from the inner callback at construction."""
        inner = Callback().set_chief_only(False)
        wrapper = PeriodicTrigger(inner, every_k_epochs=1)
        inner.set_chief_only(True)

        assert wrapper.chief_only is False


class TestEnableCallbackIf:
    def test_the_condition_gates_what_it_gates(self):
        """With a false condition, only setup_graph, before_train and after_train are called."""
        inner = RecordingCallback()
        run(CountingTrainer(), [EnableCallbackIf(inner, lambda self: False)])

        assert ["setup_graph", "before_train", "after_train"] == inner.calls

    def test_a_true_condition_changes_nothing(self):
        """With a true condition, every method is called in the same order as without the wrapper."""
        inner, plain = RecordingCallback(), RecordingCallback()
        run(CountingTrainer(), [plain, EnableCallbackIf(inner, lambda self: True)])

        assert plain.calls == inner.calls

    def test_after_run_goes_with_its_before_run(self):
        """The condition in before_run also decides about after_run, although the counters change in between."""
        inner = RecordingCallback()
        run(CountingTrainer(), [EnableCallbackIf(inner, lambda self: self.global_step == 1)], epochs=1)

        runs = [entry for entry in inner.counters if entry[0].endswith("_run")]
        assert [("before_run", 1, 1, 1), ("after_run", 1, 2, 1)] == runs

    def test_the_condition_is_given_the_wrapper(self):
        """The condition is called with the wrapper, which has the trainer and the counters."""
        seen = []
        wrapper = EnableCallbackIf(RecordingCallback(), lambda self: seen.append(self) or True)
        run(CountingTrainer(), [wrapper], steps=1, epochs=1)

        assert {id(wrapper)} == set(map(id, seen))


class TestPeriodicRunHooks:
    def test_every_k_th_run_has_the_hooks(self):
        """With every_k_steps=3, before_run and after_run are called in the first, fourth and seventh step."""
        inner = RecordingCallback(names=["cost:0"])
        run(CountingTrainer(), [PeriodicRunHooks(inner, every_k_steps=3)], steps=4, epochs=2)

        assert [(1, 0), (1, 3), (2, 6)] == inner.times("before_run")
        assert inner.calls.count("before_run") == inner.calls.count("after_run")
        assert [[0.0], [30.0], [60.0]] == inner.results

    def test_other_moments_pass(self):
        """All other methods are called as often as without the wrapper."""
        inner, plain = RecordingCallback(), RecordingCallback()
        run(CountingTrainer(), [plain, PeriodicRunHooks(inner, every_k_steps=100)], steps=4, epochs=2)

        hooks = ("before_run", "after_run")
        assert [m for m in plain.calls if m not in hooks] == [m for m in inner.calls if m not in hooks]
        assert 1 == inner.calls.count("before_run")
