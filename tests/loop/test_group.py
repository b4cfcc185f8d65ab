"""loop/group.py: many callbacks as one."""

from __future__ import annotations

from unittest import mock

import pytest
from fakes.recording import RecordingCallback

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import group
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.hooks import CallbackToHook
from tensorpack_lite.loop.state import StopTraining
from tensorpack_lite.utils import logger

MOMENTS = ["before_train", "before_epoch", "trigger_step", "after_epoch", "trigger_epoch", "after_train"]


def seen(log) -> list:
    """`(name, moment)` of each entry; that the end of an epoch triggers is a callback's own doing."""
    return [(name, moment) for name, moment, *_ in log if moment != "trigger"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_in_order(moment):
    """Each moment goes to each callback, in order."""
    calls = []
    getattr(Callbacks([RecordingCallback("a", log=calls), RecordingCallback("b", log=calls)]), moment)()
    assert [("a", moment), ("b", moment)] == seen(calls)


def test_setup_graph_at_root():
    """Callbacks are set up from the root name scope."""
    calls = []
    with tf.name_scope("outer"):
        Callbacks([RecordingCallback("a", log=calls)]).setup_graph(object())
    assert [("a", "setup_graph")] == seen(calls)


@pytest.mark.parametrize("moment", MOMENTS[:-1])
def test_error_goes_up_at_once(moment):
    """An error ends the moment and reaches the caller."""
    calls = []
    callbacks = Callbacks(
        [
            RecordingCallback("a", log=calls, at=moment, error=ValueError("mine")),
            RecordingCallback("b", log=calls),
        ]
    )
    with pytest.raises(ValueError, match="mine"):
        getattr(callbacks, moment)()
    assert [("a", moment)] == seen(calls)


class TestAfterTrain:
    def test_all_have_their_turn(self):
        """All callbacks are called, the first error is raised afterwards, each is logged."""
        calls = []
        callbacks = Callbacks(
            [
                RecordingCallback("a", log=calls, at="after_train", error=ValueError("first")),
                RecordingCallback("b", log=calls, at="after_train", error=KeyError("second")),
                RecordingCallback("c", log=calls),
            ]
        )
        with mock.patch.object(logger, "exception") as log, pytest.raises(ValueError, match="first"):
            callbacks.after_train()
        assert ["a", "b", "c"] == [name for name, _ in seen(calls)]
        assert 2 == log.call_count

    @pytest.mark.parametrize("end", [StopTraining(), tf.errors.OutOfRangeError(None, None, "over")])
    def test_an_end_is_no_error(self, end):
        """Asking for the end at the end is no error."""
        calls = []
        Callbacks(
            [
                RecordingCallback("a", log=calls, at="after_train", error=end),
                RecordingCallback("b", log=calls),
            ]
        ).after_train()
        assert ["a", "b"] == [name for name, _ in seen(calls)]


def test_idle_callbacks_are_left_out_of_steps():
    """A callback without trigger_step is not called at each step; one patched on the instance is."""
    patched, count = Callback(), []
    patched._trigger_step = lambda: count.append(1)
    callbacks = Callbacks([Callback(), patched])
    callbacks.before_train()
    callbacks.trigger_step()
    assert (1, 1) == (len(callbacks._trigger_steps), len(count))


def test_public_trigger_step_counts():
    """A callback that overrides `trigger_step` itself is called, once."""
    calls = []

    class Public(Callback):
        def trigger_step(self):
            calls.append("public")

        def _trigger_step(self):
            calls.append("underscore")

    Callbacks([Public()]).trigger_step()
    assert ["public"] == calls


def test_slow_callbacks_are_named():
    """When an epoch's callbacks take long, those that did are named."""
    with mock.patch.object(logger, "info") as log:
        group._log_slow([("fast", 0.1), ("slow", 2.0)])
    assert "slow: 2 seconds" in log.call_args[0][0]
    assert "fast" not in log.call_args[0][0]


def test_fast_epochs_are_not_logged():
    """Below two seconds nothing is said."""
    with mock.patch.object(logger, "info") as log:
        group._log_slow([("a", 1.9)])
    assert not log.called


def test_background_error():
    """The first callback that knows of an error gives it."""
    one, two, error = Callback(), Callback(), ValueError()
    two.background_error = lambda: error
    assert error is Callbacks([one, two]).background_error()
    assert Callbacks([one]).background_error() is None


def test_hooks():
    """There is one hook a callback, in order."""
    cbs = [Callback(), Callback()]
    hooks = Callbacks(cbs).get_hooks()
    assert cbs == [hook.callback for hook in hooks]
    assert all(isinstance(hook, CallbackToHook) for hook in hooks)


def test_not_a_callback():
    """Only callbacks are taken."""
    with pytest.raises(TypeError, match="takes a list of Callback, got int in it"):
        Callbacks([Callback(), 3])
