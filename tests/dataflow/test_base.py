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
    LengthUnknownError,
    NotResetError,
    ProxyDataFlow,
    RNGDataFlow,
    require_dataflow,
    reset_each_once,
)
from tensorpack_lite.dataflow.batch import BatchData
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


class Endless(DataFlow):
    """A DataFlow without a length."""

    def __iter__(self):
        yield [1]


class CountResets(New):
    """A DataFlow that counts its resets."""

    resets = 0

    def reset_state(self):
        self.resets += 1


class TestTheNames:
    @pytest.mark.parametrize("kind", [New, Old])
    def test_both_names_work_on_every_class(self, kind):
        """Every class can be used with the old and the new method names, whichever of them it defines."""
        flow = kind()
        assert [[1], [2]] == list(iter(flow))
        assert [[1], [2]] == list(flow.get_data())
        assert 2 == len(flow)
        assert 2 == flow.size()

    def test_the_old_names_of_the_base_class(self):
        """Old wrappers call `DataFlow.get_data(df)`, which calls the new methods."""
        assert [[1], [2]] == list(DataFlow.get_data(New()))
        assert 2 == DataFlow.size(New())

    def test_an_old_class_that_defines_only_get_data(self):
        """A class that defines only `get_data` has an unknown length under both names."""

        class OnlyData(DataFlow):
            def get_data(self):
                yield [3]

        assert [[3]] == list(iter(OnlyData()))
        with pytest.raises(NotImplementedError):
            OnlyData().size()

    def test_a_new_class_that_defines_only_size(self):
        """A class may combine `__iter__` with the old `size`, as the super-resolution example does."""

        class OnlySize(DataFlow):
            def __iter__(self):
                yield [3]

            def size(self):
                return 7

        assert 7 == len(OnlySize())

    def test_a_new_subclass_of_an_old_class(self):
        """The definition in the subclass wins under both names."""

        class Newer(Old):
            def __iter__(self):
                yield [3]

            def __len__(self):
                return 1

        assert [[3]] == list(Newer().get_data())
        assert 1 == Newer().size()

    def test_an_old_subclass_of_a_new_class(self):
        """A subclass that defines `get_data` overrides `__iter__`, and inherits the length."""

        class Older(New):
            def get_data(self):
                yield [3]

        assert [[3]] == list(iter(Older()))
        assert 2 == len(Older())

    def test_super_under_the_old_name(self):
        """`super().get_data()` calls the parent's `__iter__`; in tensorpack it calls itself forever."""

        class Doubled(New):
            def get_data(self):
                for (k,) in super().get_data():
                    yield [2 * k]

            def size(self):
                return super().size() + 5

        assert [[2], [4]] == list(iter(Doubled()))
        assert 7 == len(Doubled())

    def test_a_mixin_before_a_dataflow(self):
        """A method from a mixin that is not a DataFlow is used under both names as well."""

        class Mixin:
            def __iter__(self):
                yield [3]

        class Mixed(Mixin, MapData):
            pass

        assert [[3]] == list(Mixed(New(), len).get_data())

    def test_a_size_that_is_not_a_method(self):
        """A class attribute `size` that is not a method is left alone."""

        class Sized(New):
            size = 5

        assert 2 == len(Sized())
        assert 5 == Sized.size

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

    def test_an_old_proxy_asks_its_ds_under_old_names(self):
        """A wrapper with the old names can wrap a DataFlow with the new names."""

        class OldProxy(ProxyDataFlow):
            def get_data(self):
                yield from self.ds.get_data()

            def size(self):
                return self.ds.size() * 10

        assert [[1], [2]] == list(iter(OldProxy(New())))
        assert 20 == len(OldProxy(New()))

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


class TestLength:
    def test_no_length_is_a_not_implemented_error(self):
        """`len` of a DataFlow without a length raises NotImplementedError, which names the class."""
        with pytest.raises(NotImplementedError, match="Endless: has no length"):
            len(Endless())

    def test_list_of_a_dataflow_without_length(self):
        """`list(df)` works on a DataFlow without a length."""
        assert [[1]] == list(Endless())

    def test_the_error_has_two_base_classes(self):
        """LengthUnknownError is a NotImplementedError for callers of `size`, and a TypeError for Python."""
        assert issubclass(LengthUnknownError, NotImplementedError)
        assert issubclass(LengthUnknownError, TypeError)


class TestProxyDataFlow:
    def test_everything_is_passed_on(self):
        """ProxyDataFlow delegates iteration, length and reset to the wrapped DataFlow."""
        source = CountResets()
        proxy = ProxyDataFlow(source)
        proxy.reset_state()
        assert [[1], [2]] == list(proxy)
        assert 2 == len(proxy)
        assert 1 == source.resets

    def test_a_list_is_refused(self):
        """Wrapping a list raises TypeError, which tells how to wrap it in DataFromList."""
        with pytest.raises(
            TypeError,
            match=r"BatchData: expected a DataFlow, got list. Wrap the data first: BatchData\(DataFromList",
        ):
            BatchData([1, 2], 1)

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

    def test_a_fixed_seed_fixes_the_data(self):
        """The same seed yields the same numbers."""

        def rolled():
            fix_rng_seed(3)
            dice = Dice()
            dice.reset_state()
            return list(dice)

        assert rolled() == rolled()

    def test_two_of_them_differ(self):
        """Two DataFlows have different generators, even with a fixed seed."""
        fix_rng_seed(3)
        one, other = Dice(), Dice()
        one.reset_state()
        other.reset_state()
        assert [list(iter(one)) for _ in range(5)] != [list(iter(other)) for _ in range(5)]

    def test_it_can_be_pickled_before_reset(self):
        """A random DataFlow can be pickled before its reset."""
        copied = pickle.loads(pickle.dumps(Dice()))
        copied.reset_state()
        assert 4 == len(list(copied))


class TestDataFlowReentrantGuard:
    def test_entering_twice(self):
        """Entering a guard that is held raises threading.ThreadError, which is a RuntimeError."""
        guard = DataFlowReentrantGuard()
        with guard, pytest.raises(threading.ThreadError, match="already being iterated"), guard:
            pass  # pragma: no cover

    def test_it_is_free_after_an_error(self):
        """An exception in the body releases the guard."""
        guard = DataFlowReentrantGuard()
        with pytest.raises(ValueError, match="inside"), guard:
            raise ValueError("inside")
        with guard:
            pass

    def test_a_pickled_guard_is_free(self):
        """The copy of a guard that is held can be entered."""
        guard = DataFlowReentrantGuard()
        with guard:
            copied = pickle.loads(pickle.dumps(guard))
            with copied:
                pass

    def test_it_is_acquired_at_the_first_next(self):
        """Two iterators may exist, but only one may run. Closing the first one releases the guard."""

        class Guarded(New):
            def __init__(self):
                self.guard = DataFlowReentrantGuard()

            def __iter__(self):
                with self.guard:
                    yield from super().__iter__()

        flow = Guarded()
        first, second = iter(flow), iter(flow)
        assert [1] == next(first)
        with pytest.raises(RuntimeError, match="Finish or delete the other iterator"):
            next(second)
        first.close()
        assert [[1], [2]] == list(iter(flow))


def test_dataflow_terminated_passes_except_exception():
    """`except Exception` does not catch DataFlowTerminated."""
    assert not issubclass(DataFlowTerminated, Exception)


def test_require_dataflow_returns_it():
    """`require_dataflow` returns its argument."""
    flow = New()
    assert flow is require_dataflow(None, flow)


def test_reset_each_once():
    """Each object in the list is reset once, even if it is listed twice."""
    one, other = CountResets(), CountResets()
    reset_each_once([one, other, one])
    assert (1, 1) == (one.resets, other.resets)
