"""The contract of inputs, proxies, and remapped inputs."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from fakes.inputs import Numbers, driven

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.input_source.base import (
    FeedfreeInput,
    InputSource,
    ProxyInputSource,
    get_sublist_by_names,
    get_tensors_inputs,
    remap_input_source,
)
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.placeholder import PlaceholderInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.loop.callback import Callback

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


class Plain(InputSource):
    """The least a subclass defines."""

    resets = 0

    def _get_input_tensors(self):
        return [tf.zeros([1])]

    def _get_callbacks(self):
        return [Callback()]

    def _reset_state(self):
        self.resets += 1


class TestInputSource:
    def test_setup_a_second_time(self):
        """An input is for one use."""
        source = Plain()
        source.setup(SIGNATURE)
        with pytest.raises(RuntimeError, match=r"Plain.setup: was called before. Make a new one"):
            source.setup(SIGNATURE)

    def test_setup_done(self):
        """Not before, but after; a setup that failed is not done."""

        class Fails(Plain):
            def _setup(self, input_signature):
                raise KeyError("planted")

        source, failing = Plain(), Fails()
        assert not source.setup_done()
        source.setup(SIGNATURE)
        assert source.setup_done()
        with pytest.raises(KeyError):
            failing.setup(SIGNATURE)
        assert not failing.setup_done()

    def test_callbacks_before_setup(self):
        """The order is setup, then callbacks."""
        with pytest.raises(RuntimeError, match=r"Plain.get_callbacks: call setup"):
            Plain().get_callbacks()

    def test_callbacks_are_made_once_and_not_only_for_the_chief(self):
        """The reset comes first."""
        source = Plain()
        callbacks = source.setup(SIGNATURE)

        assert callbacks is source.get_callbacks()
        assert [False, False] == [cb.chief_only for cb in callbacks]
        callbacks[0].before_train()
        assert 1 == source.resets

    def test_size_is_unknown_by_default(self):
        """With a sentence of what to do."""
        with pytest.raises(
            NotImplementedError, match=r"Plain: does not know .* TrainConfig\(steps_per_epoch"
        ):
            Plain().size()

    def test_name_scope_is_entered_again(self):
        """From anywhere it is the same scope; the next input has another."""
        source = Plain()
        with source.cached_name_scope() as first:
            one = tf.constant(1, name="one")
        with tf.name_scope("elsewhere"), source.cached_name_scope() as second:
            two = tf.constant(1, name="two")
        with Plain().cached_name_scope():
            other = tf.constant(1, name="one")

        assert ("Plain/", "Plain/") == (first, second)
        assert ("Plain/one", "Plain/two", "Plain_1/one") == (one.op.name, two.op.name, other.op.name)

    def test_name_scope_begins_where_it_is_first_entered(self):
        """Under a callback's scope, an inference input is named after it."""
        with tf.name_scope("InferenceRunner"), Plain().cached_name_scope() as scope:
            assert "InferenceRunner/Plain/" == scope


class TestProxy:
    def test_passes_everything_on(self):
        """Setup, tensors, size, callbacks; the inner reset runs once."""

        class Inner(Plain):
            def _size(self):
                return 7

        inner = Inner()
        proxy = ProxyInputSource(inner)
        callbacks = proxy.setup(SIGNATURE)

        assert inner.setup_done()
        assert 7 == proxy.size()
        assert 1 == len(proxy.get_input_tensors())
        assert inner.get_callbacks()[1:] == callbacks[1:]
        for cb in callbacks:
            cb.before_train()
        assert 1 == inner.resets

    def test_of_something_else(self):
        """A DataFlow is no input."""
        with pytest.raises(TypeError, match="ProxyInputSource: takes an InputSource, got Numbers"):
            ProxyInputSource(Numbers())


class TestRemap:
    SIGNATURE = [TensorSpec([None], tf.float32, name) for name in ("a", "b", "c")]

    def test_it_is_still_of_its_class(self):
        """What asks for a QueueInput, or a FeedfreeInput, finds one."""
        remapped = remap_input_source(QueueInput(Numbers()), ["x"])

        assert isinstance(remapped, QueueInput)
        assert isinstance(remapped, FeedfreeInput)
        assert isinstance(remapped, ProxyInputSource)
        assert not isinstance(remapped, FeedInput)
        assert not isinstance(remap_input_source(FeedInput(Numbers()), ["x"]), FeedfreeInput)

    def test_of_a_remapped(self):
        """Twice remapped, still of its class."""
        assert isinstance(
            remap_input_source(remap_input_source(QueueInput(Numbers()), ["b"]), ["b"]), QueueInput
        )

    def test_attributes_of_the_inner_input(self):
        """`queue` and `ds` are there; what neither has is an AttributeError."""
        flow = Numbers()
        remapped = remap_input_source(QueueInput(flow), ["x"])
        remapped.setup(SIGNATURE)

        assert flow is remapped.ds
        assert isinstance(remapped.queue, tf.FIFOQueue)
        with pytest.raises(AttributeError, match="nothing_such"):
            _ = remapped.nothing_such

    def test_can_be_copied(self):
        """Looking up an attribute ends also before there is an inner input."""
        assert isinstance(copy.copy(remap_input_source(PlaceholderInput(), ["x"])), PlaceholderInput)

    def test_components_go_where_their_names_say(self):
        """The rest are placeholders, named like the inputs."""
        flow = DataFromList([[np.float32([3]), np.float32([1])]], shuffle=False)
        source = remap_input_source(FeedInput(flow), ["c", "a"])
        with driven(source, self.SIGNATURE) as run:
            assert ["a:0", "b:0", "c:0"] == [tensor.name for tensor in run.tensors]
            a, b, c = run.hooked.run(run.tensors, feed_dict={run.tensors[1]: [2.0]})
            assert ([1.0], [2.0], [3.0]) == (a, b, c)

    def test_queue(self):
        """The inner queue has only its components."""
        flow = DataFromList([[np.float32([3])]], shuffle=False)
        with driven(remap_input_source(QueueInput(flow), ["b"]), self.SIGNATURE) as run:
            assert "Placeholder" == run.tensors[0].op.type
            assert [3.0] == run.hooked.run(run.tensors[1])

    def test_unknown_name(self):
        """The model's inputs are named."""
        source = remap_input_source(FeedInput(Numbers()), ["z"])
        with pytest.raises(ValueError, match="the model has no input 'z', it has a, b, c"):
            source.setup(self.SIGNATURE)

    def test_helpers(self):
        """By name from a list; tensors in the place of placeholders."""
        placeholders = [tf.placeholder(tf.float32, name=name) for name in "ab"]
        tensor = tf.zeros([])

        assert [placeholders[1]] == get_sublist_by_names(placeholders, ["b"])
        assert [placeholders[0], tensor] == get_tensors_inputs(placeholders, [tensor], ["b"])
        with pytest.raises(ValueError, match="got 1 tensors and 2 names"):
            get_tensors_inputs(placeholders, [tensor], ["a", "b"])
        with pytest.raises(ValueError, match="the model has no input 'q'"):
            get_tensors_inputs(placeholders, [tensor], ["q"])
