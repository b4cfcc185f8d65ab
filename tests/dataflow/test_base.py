"""Tests of the DataFlow interface: old and new method names, lengths, resets and guards."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from tensorpack_lite.dataflow import base
from tensorpack_lite.dataflow.base import (
    DataFlow,
    DataFlowReentrantGuard,
    DataFlowTerminated,
    NotResetError,
    ProxyDataFlow,
    RNGDataFlow,
)
from tensorpack_lite.dataflow.mapping import MapData
from tensorpack_lite.utils.utils import fix_rng_seed


class New(DataFlow):
    """A DataFlow with the current method names."""

    def __iter__(self):
        yield [1]
        yield [2]

    def __len__(self):
        return 2


class Old(DataFlow):
    """A DataFlow with the method names of tensorpack 0.8."""

    def get_data(self):
        yield [1]
        yield [2]

    def size(self):
        return 2


class CountResets(New):
    """A DataFlow that counts its resets."""

    resets = 0

    def reset_state(self):
        self.resets += 1


class NewSizeOnly(DataFlow):
    """A DataFlow that combines `__iter__` with the old `size`, as the super-resolution example does."""

    def __iter__(self):
        yield [3]

    def size(self):
        return 7


class Newer(Old):
    """A class with the current names that derives from one with the old names."""

    def __iter__(self):
        yield [3]

    def __len__(self):
        return 1


class Older(New):
    """A class with the old name of the iteration that inherits its length."""

    def get_data(self):
        yield [3]


class Doubled(New):
    """A class that calls its base class under the old names; in tensorpack, `super().get_data()` calls itself forever."""

    def get_data(self):
        for (k,) in super().get_data():
            yield [2 * k]

    def size(self):
        return super().size() + 5


class OldProxy(ProxyDataFlow):
    """A wrapper with the old names."""

    def get_data(self):
        yield from self.ds.get_data()

    def size(self):
        return self.ds.size() * 10


class TestTheNames:
    @pytest.mark.parametrize(
        ("build", "datapoints", "length"),
        [
            (New, [[1], [2]], 2),
            (Old, [[1], [2]], 2),
            (NewSizeOnly, [[3]], 7),
            (Newer, [[3]], 1),
            (Older, [[3]], 2),
            (Doubled, [[2], [4]], 7),
            (lambda: OldProxy(New()), [[1], [2]], 20),
        ],
    )
    def test_both_names_work_on_every_class(self, build, datapoints, length):
        """Every class can be used with the old and the new method names, whichever of them it and its base class define."""
        flow = build()
        assert datapoints == list(iter(flow)) == list(flow.get_data())
        assert length == len(flow) == flow.size()

    def test_the_old_names_of_the_base_class(self):
        """Old wrappers call `DataFlow.get_data(df)`, which calls the new methods."""
        assert [[1], [2]] == list(DataFlow.get_data(New()))
        assert 2 == DataFlow.size(New())

    def test_a_mixin_before_a_dataflow(self):
        """A method from a mixin that is not a DataFlow is used under both names as well."""

        class Mixin:
            def __iter__(self):
                yield [3]

        class Mixed(Mixin, MapData):
            pass

        assert [[3]] == list(Mixed(New(), len).get_data())

    def test_an_attribute_size(self, monkeypatch):
        """An attribute `size` hides the method `size()`, and a warning at the reset says so once."""
        warnings = []
        monkeypatch.setattr(base, "log_once", lambda message, level: warnings.append((message, level)))

        class Sized(New):
            def __init__(self):
                self.size = 5

        flow = Sized()
        flow.reset_state()
        assert 2 == len(flow)
        assert [("Sized: its attribute `size` hides the method `size()`", "warning")] == [
            (message.split(",")[0], level) for message, level in warnings
        ]
        New().reset_state()
        assert 1 == len(warnings)

    def test_iter_is_required(self):
        """A class that defines neither `__iter__` nor `get_data` is abstract."""

        class Nothing(DataFlow):
            pass

        with pytest.raises(TypeError, match="abstract"):
            Nothing()

    def test_double_inheritance(self):
        """A class can be both a DataFlow and a Callback, like the replay memory in the DQN example."""
        pytest.importorskip("tensorflow", reason="callbacks need TensorFlow")
        from tensorpack_lite.loop.callback import Callback

        class Replay(DataFlow, Callback):
            def get_data(self):
                yield [1]

        assert [[1]] == list(iter(Replay()))
        assert isinstance(Replay(), Callback)


class TestProxyDataFlow:
    def test_a_look_alike_is_taken(self):
        """Any object that can be iterated and reset is accepted, e.g. a DataFlow of the package `dataflow`."""

        class LookAlike:
            def __iter__(self):
                return iter([[1]])

            def reset_state(self):
                pass

        assert [[1]] == list(iter(ProxyDataFlow(LookAlike())))

    def test_a_subclass_need_not_call_the_constructor(self):
        """A subclass may set `ds` without calling the constructor of ProxyDataFlow."""

        class Batch(ProxyDataFlow):
            def __init__(self, ds):
                self.ds = ds

        proxy = Batch(CountResets())
        proxy.reset_state()
        assert 1 == proxy.ds.resets
        assert 2 == len(proxy)

    @pytest.mark.parametrize("bases", [(ProxyDataFlow, RNGDataFlow), (RNGDataFlow, ProxyDataFlow)])
    def test_diamond(self, bases):
        """A class that derives from ProxyDataFlow and RNGDataFlow can call both resets."""

        class Diamond(*bases):
            def reset_state(self):
                ProxyDataFlow.reset_state(self)
                RNGDataFlow.reset_state(self)

        diamond = Diamond(CountResets())
        diamond.reset_state()
        assert 1 == diamond.ds.resets
        assert [[1], [2]] == list(diamond)
        assert isinstance(diamond.rng, np.random.RandomState)


class Dice(RNGDataFlow):
    """A random DataFlow as a user would write it."""

    def __iter__(self):
        for _ in range(4):
            yield [self.rng.randint(6)]


class TestRNGDataFlow:
    def test_without_reset(self):
        """Using `rng` before a reset raises NotResetError, a RuntimeError and, as in tensorpack, an AttributeError."""
        with pytest.raises(NotResetError, match=r"Dice: reset_state\(\) was not called") as info:
            next(iter(Dice()))
        assert isinstance(info.value, RuntimeError)
        assert isinstance(info.value, AttributeError)

    def test_the_class_attribute_is_none(self):
        """The class attribute `rng` is None, as in tensorpack."""
        assert RNGDataFlow.rng is None

    def test_two_of_them_differ(self):
        """Two DataFlows have different generators, even with a fixed seed."""
        fix_rng_seed(3)
        one, other = Dice(), Dice()
        one.reset_state()
        other.reset_state()
        assert [list(iter(one)) for _ in range(5)] != [list(iter(other)) for _ in range(5)]


class TestDataFlowReentrantGuard:
    def test_entering_twice(self):
        """Entering a guard that is held raises threading.ThreadError, which is a RuntimeError."""
        guard = DataFlowReentrantGuard()
        with guard, pytest.raises(threading.ThreadError, match="already being iterated"), guard:
            pass  # pragma: no cover

    def test_a_pickled_guard_is_free(self):
        """The copy of a guard that is held can be entered."""
        guard = DataFlowReentrantGuard()
        with guard:
            copied = pickle.loads(pickle.dumps(guard))
            with copied:
                pass


def test_dataflow_terminated_passes_except_exception():
    """`except Exception` does not catch DataFlowTerminated."""
    assert not issubclass(DataFlowTerminated, Exception)
