"""loop/callback.py: the moments of a callback, proxies and factories."""

from __future__ import annotations

import inspect
from abc import ABC

import pytest
from fakes.recording import RecordingCallback

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import callback as callback_module
from tensorpack_lite.loop.callback import Callback, CallbackFactory, ProxyCallback

MOMENTS = [
    "before_train",
    "before_epoch",
    "trigger_step",
    "after_epoch",
    "trigger_epoch",
    "trigger",
    "after_train",
]


class FakeTrainer:
    """What a callback sees of a trainer, in these tests."""

    epoch_num, global_step, local_step = 2, 7, 1

    def find_tensor(self, name):
        return f"found {name}"


class TestCallback:
    @pytest.mark.parametrize("moment", MOMENTS)
    def test_public_calls_underscore(self, moment):
        """Each public moment calls the method that a subclass overrides."""
        recorder = RecordingCallback()
        getattr(recorder, moment)()
        expected = ["trigger_epoch", "trigger"] if moment == "trigger_epoch" else [moment]
        assert expected == recorder.calls

    def test_nothing_overridden(self):
        """A bare callback asks for nothing, and nothing went wrong behind it."""
        assert Callback().before_run(None) is None
        assert Callback().background_error() is None

    def test_trigger_epoch_triggers(self):
        """By default the end of an epoch triggers."""

        class Triggered(Callback):
            count = 0

            def _trigger(self):
                self.count += 1

        callback = Triggered()
        callback.trigger_epoch()
        assert 1 == callback.count

    def test_all_moments_are_drawn(self):
        """The module's docstring draws every moment there is."""
        underscored = [
            n for n in vars(Callback) if n.startswith("_") and n[1:] in vars(Callback) and n != "_chief_only"
        ]
        assert 10 == len(underscored)
        for name in underscored:
            assert name in callback_module.__doc__, name

    def test_name_scope(self):
        """What it creates is in a scope named after the class without underscores, or as it says; made unique."""

        class My_Callback(Callback):
            def _setup_graph(self):
                self.scope = tf.get_default_graph().get_name_scope()

        named = My_Callback()
        named.name_scope = "Other"
        callbacks = [My_Callback(), My_Callback(), named]
        for callback in callbacks:
            callback.setup_graph(FakeTrainer())
        assert ["MyCallback", "MyCallback_1", "Other"] == [c.scope for c in callbacks]

    def test_attributes(self, fresh_graph):
        """It knows trainer, graph and counters from setup on."""
        callback, trainer = Callback(), FakeTrainer()
        callback.setup_graph(trainer)
        assert callback.trainer is trainer
        assert fresh_graph is callback.graph
        assert (2, 7, 1) == (callback.epoch_num, callback.global_step, callback.local_step)

    def test_chief_only(self):
        """It is for the chief by default, and can be changed in an argument list."""
        callback = Callback()
        assert callback.chief_only
        assert callback.set_chief_only(False) is callback
        assert not callback.chief_only
        assert Callback().chief_only

    def test_str(self):
        """Its text is its class."""
        assert "RecordingCallback" == str(RecordingCallback())

    def test_no_constructor_needed(self):
        """It mixes with other base classes, abstract ones too, without its constructor being called."""

        class Other(ABC):  # noqa: B024
            def __init__(self):
                self.other = True

        class Both(Other, Callback):
            pass

        both = Both()
        both.setup_graph(FakeTrainer())
        both.before_train()
        assert both.other

    def test_find_tensors(self):
        """Names are looked up by the trainer."""
        callback = Callback()
        callback.setup_graph(FakeTrainer())
        assert ["found a", "found b"] == callback.get_tensors_maybe_in_tower(["a", "b"])


class TestBeforeRun:
    def make(self, returned):
        callback = Callback()
        callback._before_run = lambda ctx: returned
        return callback

    def test_none(self):
        """Nothing asked for is None."""
        assert self.make(None).before_run(None) is None

    def test_args_as_they_are(self):
        """SessionRunArgs are passed on, the same object."""
        args = tf.train.SessionRunArgs(tf.constant(1))
        assert args is self.make(args).before_run(None)

    def test_list_of_names(self):
        """Names become tensors and operations: without an index, the operation."""
        x = tf.constant(1, name="x")
        assert [x.op, x, x] == self.make(["x", "x:0", x]).before_run(None).fetches

    @pytest.mark.parametrize("wrong", [(1, 2), "x", {"a": 1}])
    def test_something_else(self, wrong):
        """Anything else is refused by name."""
        with pytest.raises(TypeError, match="Callback: _before_run returned"):
            self.make(wrong).before_run(None)


class TestProxyCallback:
    def test_passes_every_moment_on(self):
        """Each moment of the proxy is the same moment of the inner one."""
        inner = RecordingCallback()
        proxy = ProxyCallback(inner)
        proxy.setup_graph(FakeTrainer())
        moments = [moment for moment in MOMENTS if moment != "trigger"]  # trigger_epoch does that
        for moment in moments:
            getattr(proxy, moment)()
        proxy.trigger()
        proxy.before_run(None)
        proxy.after_run(None, None)
        passed_on = [moment for moment in inner.calls[1:-3] if moment != "trigger"]
        assert moments == passed_on
        assert ["setup_graph", "trigger", "before_run", "after_run"] == [inner.calls[0], *inner.calls[-3:]]

    def test_inner_opens_its_own_scope(self):
        """The inner callback's scope is the same as without a proxy."""

        class Inner(Callback):
            def _setup_graph(self):
                self.scope = tf.get_default_graph().get_name_scope()

        inner = Inner()
        ProxyCallback(inner).setup_graph(FakeTrainer())
        assert "Inner" == inner.scope

    def test_chief_only_is_copied(self):
        """It is for the chief when the inner one is."""
        assert not ProxyCallback(Callback().set_chief_only(False)).chief_only

    def test_str(self):
        """Its text shows both."""
        assert "Proxy-RecordingCallback" == str(ProxyCallback(RecordingCallback()))

    def test_background_error(self):
        """The inner callback's error is its own."""
        inner, error = Callback(), ValueError("x")
        inner.background_error = lambda: error
        assert error is ProxyCallback(inner).background_error()

    def test_not_a_callback(self):
        """It wraps callbacks only."""
        with pytest.raises(TypeError, match="ProxyCallback: takes a Callback, got int"):
            ProxyCallback(3)


class TestCallbackFactory:
    def test_calls_the_functions(self):
        """Each function is called at its moment with the factory."""
        calls = []
        factory = CallbackFactory(*[lambda self, name=name: calls.append((name, self)) for name in "abcd"])
        factory.setup_graph(FakeTrainer())
        factory.before_train()
        factory.trigger_epoch()
        factory.after_train()
        assert [(name, factory) for name in "abcd"] == calls

    def test_nothing_given(self):
        """Moments without function do nothing."""
        factory = CallbackFactory()
        factory.setup_graph(FakeTrainer())
        factory.before_train()
        factory.trigger()
        factory.after_train()

    def test_argument_names(self):
        """The arguments are the moments, in order."""
        names = list(inspect.signature(CallbackFactory).parameters)
        assert ["setup_graph", "before_train", "trigger", "after_train"] == names
