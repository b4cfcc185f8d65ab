"""loop/group.py: a list of callbacks."""

from __future__ import annotations

import pytest
from fakes.recording import RecordingCallback

from tensorpack_lite.callbacks.trigger import EnableCallbackIf
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import group, moments
from tensorpack_lite.loop.callback import Call, Callback
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.loop.hooks import CallbackToHook
from tensorpack_lite.loop.proxy_callback import ProxyCallback
from tensorpack_lite.loop.state import StopTraining

OTHERS = ("setup_graph", "before_run", "after_run", "trigger")
MOMENTS = [name for name in moments.MOMENTS if name not in OTHERS]


def seen(log) -> list:
    """Return `(name, moment)` of each entry, without the `trigger` that `trigger_epoch` calls."""
    return [(name, moment) for name, moment, *_ in log if moment != "trigger"]


def recorders(calls, *names, **fault):
    """Make a group of recording callbacks, ready for every moment; `fault` goes to the first one."""
    callbacks = Callbacks([RecordingCallback(name, log=calls) for name in names])
    callbacks.before_train()
    calls.clear()
    for callback in callbacks.cbs:
        callback.calls.clear()
    callbacks.cbs[0].at, callbacks.cbs[0].error = fault.get("at"), fault.get("error")
    return callbacks


@pytest.mark.parametrize("moment", MOMENTS)
def test_in_order(moment):
    """Each moment calls each callback, in order."""
    calls = []
    getattr(recorders(calls, "a", "b"), moment)()
    assert [("a", moment), ("b", moment)] == seen(calls)


def test_setup_graph_at_root():
    """Callbacks are set up from the root name scope."""
    calls = []
    with tf.name_scope("outer"):
        recorders(calls, "a").setup_graph(object())
    assert [("a", "setup_graph")] == seen(calls)


@pytest.mark.parametrize("moment", MOMENTS[:-1])
def test_an_error_is_raised_at_once(moment):
    """An error ends the moment and is raised to the caller."""
    calls = []
    callbacks = recorders(calls, "a", "b", at=moment, error=ValueError("mine"))
    with pytest.raises(ValueError, match="mine"):
        getattr(callbacks, moment)()
    assert [("a", moment)] == seen(calls)


class TestAfterTrain:
    def test_all_are_called(self, log_lines):
        """All callbacks are called, each error is logged, and the first error is raised at the end."""
        calls = []
        callbacks = Callbacks(
            [
                RecordingCallback("a", log=calls, at="after_train", error=ValueError("first")),
                RecordingCallback("b", log=calls, at="after_train", error=KeyError("second")),
                RecordingCallback("c", log=calls),
            ]
        )
        with pytest.raises(ValueError, match="first"):
            callbacks.after_train()
        assert ["a", "b", "c"] == [name for name, _ in seen(calls)]
        assert 2 == len(log_lines)

    @pytest.mark.parametrize("end", [StopTraining(), tf.errors.OutOfRangeError(None, None, "over")])
    def test_asking_to_end_is_not_an_error(self, end):
        """A callback that asks in `after_train` to end training raises no error."""
        calls = []
        recorders(calls, "a", "b", at="after_train", error=end).after_train()
        assert ["a", "b"] == [name for name, _ in seen(calls)]


class TestCurrentCall:
    @pytest.mark.parametrize("moment", MOMENTS)
    def test_during_each_moment(self, moment):
        """The group reports the callback that is being called, and its method; afterwards it reports None."""
        current = []

        class Asks(Callback):
            pass

        asks = [Asks(), Asks()]
        callbacks = Callbacks(asks)
        for one in asks:
            setattr(one, f"_{moment}", lambda: current.append(callbacks.current_call))
        if moment != "before_train":
            callbacks.before_train()
        getattr(callbacks, moment)()
        assert [Call(one, f"_{moment}") for one in asks] == current
        assert callbacks.current_call is None

    def test_after_an_error(self):
        """When a moment fails, `after_train` resets the current call."""
        callbacks = recorders([], "a", at="trigger_step", error=ValueError("mine"))
        with pytest.raises(ValueError, match="mine"):
            callbacks.trigger_step()
        callbacks.after_train()
        assert callbacks.current_call is None


@pytest.mark.parametrize("moment", moments.of_step())
class TestInEachStep:
    def test_idle_callbacks_are_left_out(self, moment):
        """A callback without the method is not called at each step; one whose instance has it is called."""
        patched, count = Callback(), []
        setattr(patched, f"_{moment}", lambda: count.append(1))
        callbacks = Callbacks([Callback(), patched])
        callbacks.before_train()
        getattr(callbacks, moment)()
        assert (1, 1) == (len(callbacks._in_step[moment]), len(count))

    def test_a_callback_that_overrides_the_public_method(self, moment):
        """A callback that overrides the method without an underscore is called, once."""
        calls = []
        public = type("Public", (Callback,), {moment: lambda self: calls.append("public")})()
        setattr(public, f"_{moment}", lambda: calls.append("underscore"))
        callbacks = Callbacks([public])
        callbacks.before_train()
        getattr(callbacks, moment)()
        assert ["public"] == calls

    def test_groups_and_proxies_forward_it(self, moment):
        """A callback inside a proxy, a condition or another group is called."""
        calls = []
        one, two, three, never = [RecordingCallback(name, log=calls) for name in ("one", "two", "three", "never")]
        inner = Callbacks([two, EnableCallbackIf(three, lambda self: True)])
        callbacks = Callbacks([ProxyCallback(one), inner, EnableCallbackIf(never, lambda self: False)])
        callbacks.before_train()
        calls.clear()
        getattr(callbacks, moment)()
        assert [("one", moment), ("two", moment), ("three", moment)] == seen(calls)

    def test_calls_can_be_replaced(self, moment):
        """A function replaces each call, for example to measure it; checks are not calls."""
        calls, checks = [], []
        callbacks = Callbacks([Callback(), RecordingCallback("b", log=calls)])
        callbacks.check = lambda: checks.append(1)
        callbacks.before_train()
        checks.clear()
        seen = []
        callbacks.replace_calls(lambda call, method: lambda: seen.append(call))
        getattr(callbacks, moment)()
        assert [Call(callbacks.cbs[1], f"_{moment}")] == seen
        assert 2 == len(checks)
        assert moment not in [name for _, name, *_ in calls]


def test_slow_callbacks_are_logged(log_lines):
    """When the callbacks of an epoch take two seconds or more in total, the slow ones are logged by name."""
    group._log_slow([("a", 1.9)])
    assert [] == log_lines
    group._log_slow([("fast", 0.1), ("slow", 2.0)])
    (line,) = log_lines
    assert "slow: 2 seconds" in line
    assert "fast" not in line


def test_background_error():
    """The first background error of a callback is returned."""
    one, two, error = Callback(), Callback(), ValueError()
    two.background_error = lambda: error
    assert error is Callbacks([one, two]).background_error()
    assert Callbacks([one]).background_error() is None


def test_hooks():
    """Each callback gets one hook, in order."""
    cbs = [Callback(), Callback()]
    hooks = Callbacks(cbs).get_hooks()
    assert cbs == [hook.callback for hook in hooks]
    assert all(isinstance(hook, CallbackToHook) for hook in hooks)
