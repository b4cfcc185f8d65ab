"""The InputSource interface, proxies, and remapped inputs."""

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
)
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.placeholder import PlaceholderInput
from tensorpack_lite.input_source.queueing import QueueInput
from tensorpack_lite.input_source.remap import get_sublist_by_names, get_tensors_inputs, remap_input_source
from tensorpack_lite.loop.callback import Callback

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


class Plain(InputSource):
    """The smallest InputSource."""

    resets = 0

    def _get_input_tensors(self):
        return [tf.zeros([1])]

    def _get_callbacks(self):
        return [Callback()]

    def _reset_state(self):
        self.resets += 1


class TestInputSource:
    def test_setup_done(self):
        """setup_done is False after a setup that failed."""

        class Fails(Plain):
            def _setup(self, input_signature):
                raise KeyError("planted")

        failing = Fails()
        with pytest.raises(KeyError):
            failing.setup(SIGNATURE)
        assert not failing.setup_done()

    def test_callbacks_before_setup(self):
        """get_callbacks raises RuntimeError before setup."""
        with pytest.raises(RuntimeError, match=r"Plain.get_callbacks: call setup"):
            Plain().get_callbacks()

    def test_size_is_unknown_by_default(self):
        """Without _size, size() raises NotImplementedError with advice."""
        with pytest.raises(
            NotImplementedError,
            match=r"Plain: the number of datapoints is unknown. .* TrainConfig\(steps_per_epoch",
        ):
            Plain().size()

    def test_name_scope_is_entered_again(self):
        """An input always enters the same name scope; the next input gets another one."""
        source = Plain()
        with source.cached_name_scope() as first:
            one = tf.constant(1, name="one")
        with tf.name_scope("elsewhere"), source.cached_name_scope() as second:
            two = tf.constant(1, name="two")
        with Plain().cached_name_scope():
            other = tf.constant(1, name="one")

        assert ("Plain/", "Plain/") == (first, second)
        assert ("Plain/one", "Plain/two", "Plain_1/one") == (one.op.name, two.op.name, other.op.name)

    def test_nested_name_scope(self):
        """The name scope of an input is nested in the scope in which it is first entered."""
        with tf.name_scope("InferenceRunner"), Plain().cached_name_scope() as scope:
            assert "InferenceRunner/Plain/" == scope


class TestProxy:
    def test_forwards_everything(self):
        """A proxy forwards setup, tensors, size and callbacks; the inner input is reset once."""

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

    def test_not_an_input(self):
        """A proxy around a DataFlow raises TypeError."""
        with pytest.raises(TypeError, match="ProxyInputSource: expected an InputSource, got Numbers"):
            ProxyInputSource(Numbers())


class TestRemap:
    SIGNATURE = [TensorSpec([None], tf.float32, name) for name in ("a", "b", "c")]

    def test_isinstance(self):
        """isinstance finds the class of the inner input."""
        remapped = remap_input_source(QueueInput(Numbers()), ["x"])

        assert isinstance(remapped, QueueInput)
        assert isinstance(remapped, FeedfreeInput)
        assert isinstance(remapped, ProxyInputSource)
        assert not isinstance(remapped, FeedInput)
        assert not isinstance(remap_input_source(FeedInput(Numbers()), ["x"]), FeedfreeInput)

    def test_remapped_twice(self):
        """An input that is remapped twice still has the class of the inner input."""
        assert isinstance(remap_input_source(remap_input_source(QueueInput(Numbers()), ["b"]), ["b"]), QueueInput)

    def test_attributes_of_the_inner_input(self):
        """Attributes such as `queue` are looked up in the inner input; unknown ones raise AttributeError."""
        flow = Numbers()
        remapped = remap_input_source(QueueInput(flow), ["x"])
        remapped.setup(SIGNATURE)

        assert flow is remapped.ds
        assert isinstance(remapped.queue, tf.FIFOQueue)
        with pytest.raises(AttributeError, match="nothing_such"):
            _ = remapped.nothing_such

    def test_can_be_copied(self):
        """copy.copy, which creates an object without an inner input, does not recurse."""
        assert isinstance(copy.copy(remap_input_source(PlaceholderInput(), ["x"])), PlaceholderInput)

    def test_components_by_name(self):
        """Components go to the inputs of the given names; the other inputs are placeholders."""
        flow = DataFromList([[np.float32([3]), np.float32([1])]], shuffle=False)
        source = remap_input_source(FeedInput(flow), ["c", "a"])
        with driven(source, self.SIGNATURE) as run:
            assert ["a:0", "b:0", "c:0"] == [tensor.name for tensor in run.tensors]
            a, b, c = run.hooked.run(run.tensors, feed_dict={run.tensors[1]: [2.0]})
            assert ([1.0], [2.0], [3.0]) == (a, b, c)

    def test_queue(self):
        """The queue of a remapped QueueInput contains only the components of its DataFlow."""
        flow = DataFromList([[np.float32([3])]], shuffle=False)
        with driven(remap_input_source(QueueInput(flow), ["b"]), self.SIGNATURE) as run:
            assert "Placeholder" == run.tensors[0].op.type
            assert [3.0] == run.hooked.run(run.tensors[1])

    def test_unknown_name(self):
        """An unknown name raises an error that lists the model's inputs."""
        source = remap_input_source(FeedInput(Numbers()), ["z"])
        with pytest.raises(ValueError, match=r"the model has no input 'z' \(expected one of a, b, c\)"):
            source.setup(self.SIGNATURE)

    def test_helpers(self):
        """get_sublist_by_names selects by name, and get_tensors_inputs replaces placeholders."""
        placeholders = [tf.placeholder(tf.float32, name=name) for name in "ab"]
        tensor = tf.zeros([])

        assert [placeholders[1]] == get_sublist_by_names(placeholders, ["b"])
        assert [placeholders[0], tensor] == get_tensors_inputs(placeholders, [tensor], ["b"])
        with pytest.raises(ValueError, match=r"expected a name for each of 1 tensors, got \['a', 'b'\]"):
            get_tensors_inputs(placeholders, [tensor], ["a", "b"])
        with pytest.raises(ValueError, match="the model has no input 'q'"):
            get_tensors_inputs(placeholders, [tensor], ["q"])
