"""loop/callback.py: the moments of a callback, proxies and factories."""

from __future__ import annotations

import inspect
from abc import ABC

import pytest
from fakes.recording import RecordingCallback

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop import moments
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.proxy_callback import ProxyCallback

MOMENTS = [name for name in moments.MOMENTS if name not in ("setup_graph", "before_run", "after_run")]


class FakeTrainer:
    """The parts of a trainer that these tests need."""

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
        """A bare callback requests nothing and has no background error."""
        assert Callback().before_run(None) is None
        assert Callback().background_error() is None

    def test_trigger_epoch_triggers(self):
        """By default, `trigger_epoch` calls `trigger`."""

        class Triggered(Callback):
            count = 0

            def _trigger(self):
                self.count += 1

        callback = Triggered()
        callback.trigger_epoch()
        assert 1 == callback.count

    def test_name_scope(self):
        """`_setup_graph` runs in a unique scope named `name_scope`, or after the class without underscores."""

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
        """After `setup_graph`, a callback has the trainer, the graph and the counters."""
        callback, trainer = Callback(), FakeTrainer()
        callback.setup_graph(trainer)
        assert callback.trainer is trainer
        assert fresh_graph is callback.graph
        assert (2, 7, 1) == (callback.epoch_num, callback.global_step, callback.local_step)

    def test_chief_only(self):
        """`chief_only` is True by default, and `set_chief_only` returns the callback."""
        callback = Callback()
        assert callback.chief_only
        assert callback.set_chief_only(False) is callback
        assert not callback.chief_only
        assert Callback().chief_only

    def test_str(self):
        """`str` of a callback is the name of its class."""
        assert "RecordingCallback" == str(RecordingCallback())

    def test_no_constructor_needed(self):
        """A callback can have other base classes, also abstract ones, and need not call a constructor of Callback."""

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
        """The trainer looks up the names."""
        callback = Callback()
        callback.setup_graph(FakeTrainer())
        assert ["found a", "found b"] == callback.get_tensors_maybe_in_tower(["a", "b"])


class TestBeforeRun:
    def make(self, returned):
        callback = Callback()
        callback._before_run = lambda ctx: returned
        return callback

    def test_none(self):
        """`before_run` returns None if nothing is requested."""
        assert self.make(None).before_run(None) is None

    def test_args_as_they_are(self):
        """SessionRunArgs are returned unchanged."""
        args = tf.train.SessionRunArgs(tf.constant(1))
        assert args is self.make(args).before_run(None)

    def test_list_of_names(self):
        """Names become tensors, also without an index, or operations that have no value."""
        x, nothing = tf.constant(1, name="x"), tf.no_op("nothing")
        assert [x, x, x, nothing] == self.make(["x", "x:0", x, "nothing"]).before_run(None).fetches

    @pytest.mark.parametrize("wrong", [(1, 2), "x", {"a": 1}])
    def test_something_else(self, wrong):
        """Another type raises TypeError, which names the callback."""
        with pytest.raises(TypeError, match="Callback: _before_run returned"):
            self.make(wrong).before_run(None)


class TestProxyCallback:
    def test_forwards_every_moment(self):
        """Each moment of the proxy calls the same moment of the inner callback."""
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

    def test_works_alone(self):
        """`works_alone` follows the inner callback."""
        inner = Callback()
        proxy = ProxyCallback(inner)
        assert not proxy.works_alone
        inner.works_alone = True
        assert proxy.works_alone

    def test_str(self):
        """`str` of a proxy contains that of the inner callback."""
        assert "Proxy-RecordingCallback" == str(ProxyCallback(RecordingCallback()))

    def test_background_error(self):
        """The proxy returns the inner callback's background error."""
        inner, error = Callback(), ValueError("x")
        inner.background_error = lambda: error
        assert error is ProxyCallback(inner).background_error()


class TestCallbackFactory:
    def test_calls_the_functions(self):
        """Each function is called at its moment with the callback as argument."""
        calls = []
        factory = CallbackFactory(*[lambda self, name=name: calls.append((name, self)) for name in "abcd"])
        factory.setup_graph(FakeTrainer())
        factory.before_train()
        factory.trigger_epoch()
        factory.after_train()
        assert [(name, factory) for name in "abcd"] == calls

    def test_nothing_given(self):
        """A moment without a function does nothing."""
        factory = CallbackFactory()
        factory.setup_graph(FakeTrainer())
        factory.before_train()
        factory.trigger()
        factory.after_train()

    def test_argument_names(self):
        """The names of the arguments are the moments, in order."""
        names = list(inspect.signature(CallbackFactory).parameters)
        assert ["setup_graph", "before_train", "trigger", "after_train"] == names


def test_a_handle_in_setup_graph_is_explained(fresh_graph):
    """A callback whose `_setup_graph` uses the handle of a variable as its value gets an error with the line to write."""
    tf.get_variable("fc/W", [2, 2], use_resource=True)
    target = tf.get_variable("target/fc/W", [2, 2], use_resource=True)

    class UpdateTarget(Callback):
        def _setup_graph(self):
            self.update = target.assign(self.graph.get_tensor_by_name("fc/W:0"))

    with pytest.raises(ValueError, match=r"UpdateTarget._setup_graph: the handle of a variable.*get_tensors_by_names"):
        UpdateTarget().setup_graph(FakeTrainer())
