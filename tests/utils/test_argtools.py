"""Decorators on functions and methods, and conversions of shapes."""

from __future__ import annotations

import gc
import pickle
import weakref
from unittest import mock

import numpy as np
import pytest

from tensorpack_lite.utils.argtools import (
    call_only_once,
    get_data_format,
    graph_memoized,
    log_once,
    map_arg,
    memoized,
    memoized_ignoreargs,
    memoized_method,
    shape2d,
    shape4d,
)


class TestMapArg:
    @pytest.fixture
    def train(self):
        @map_arg(gpus=lambda gpus: list(range(gpus)) if isinstance(gpus, int) else gpus)
        def train(first, gpus=2, *rest, **named):
            """Train a model."""
            return first, gpus, rest, named

        return train

    @pytest.mark.parametrize(
        ("args", "kwargs", "expected"),
        [
            ((0, 3), {}, (0, [0, 1, 2], (), {})),
            ((), {"gpus": 3, "first": 0}, (0, [0, 1, 2], (), {})),
            ((0,), {}, (0, 2, (), {})),
            ((0, 1, 5, 6), {"x": 7}, (0, [0], (5, 6), {"x": 7})),
        ],
        ids=["positional", "keyword", "default", "others"],
    )
    def test_only_the_argument_is_converted(self, train, args, kwargs, expected):
        """An argument that is passed is converted; a default and other arguments are not."""
        assert expected == train(*args, **kwargs)

    def test_keeps_the_docstring(self, train):
        """The decorated function has the docstring of the function."""
        assert "Train a model." == train.__doc__

    def test_missing_argument(self, train):
        """A call without a required argument raises the function's own TypeError."""
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'first'"):
            train(gpus=3)


class TestMemoized:
    def test_once_per_arguments(self):
        """The function is called once for each set of arguments."""
        function = mock.Mock(side_effect=lambda x, y=0: x + y, __name__="f")
        remembered = memoized(function)

        assert [3, 3, 4] == [remembered(1, y=2), remembered(1, y=2), remembered(1, y=3)]
        assert 2 == function.call_count

    def test_ignoreargs(self):
        """A function always returns its first result, and two functions are independent."""

        @memoized_ignoreargs
        def first(x):
            return x

        @memoized_ignoreargs
        def second(x):
            return x

        assert [1, 2, 1, 2] == [first(1), second(2), first(3), second(4)]


class Squares:
    """Records the arguments of its calls."""

    def __init__(self):
        self.calls = []

    @memoized_method
    def square(self, x, offset=0):
        self.calls.append((x, offset))
        return x * x + offset

    @memoized_method
    def nothing(self):
        self.calls.append("nothing")


class Cubes(Squares):
    @memoized_method
    def square(self, x, offset=0):
        return x * super().square(x, offset=offset)


class TestMemoizedMethod:
    def test_values_of_keywords_count(self):
        """Different values of a keyword argument have different results."""
        squares = Squares()

        assert [5, 6, 5] == [squares.square(2, offset=o) for o in (1, 2, 1)]
        assert [(2, 1), (2, 2)] == squares.calls

    def test_none_is_remembered(self):
        """A result of None is remembered."""
        squares = Squares()

        assert [None, None] == [squares.nothing(), squares.nothing()]
        assert ["nothing"] == squares.calls

    def test_instances_are_separate(self):
        """Results belong to one instance and do not keep it alive."""
        first, second = Squares(), Squares()
        first.square(2)
        second.square(2)
        reference = weakref.ref(first)
        del first

        assert [(2, 0)] == second.calls
        assert reference() is None

    def test_subclass_calls_super(self):
        """A method and the method that it overrides do not share results."""
        assert 8 == Cubes().square(2)

    def test_instance_can_be_pickled(self):
        """An instance with remembered results can be pickled."""
        squares = Squares()
        squares.square(2)

        assert 4 == pickle.loads(pickle.dumps(squares)).square(2)


class Machine:
    """Has methods that may be called once."""

    def __init__(self):
        self.starts = 0
        self.works = False

    @call_only_once
    def start(self):
        self.starts += 1
        return "started"

    @call_only_once
    def start_if_it_works(self):
        if not self.works:
            raise OSError("no power")

    @call_only_once
    def start_twice(self):
        self.start_twice()

    @property
    def owner(self):
        return self._owner

    @owner.setter
    @call_only_once
    def owner(self, value):
        self._owner = value


class BigMachine(Machine):
    @call_only_once
    def start(self):
        return super().start() + " big"


class TestCallOnlyOnce:
    def test_second_call_raises(self):
        """A second call raises a RuntimeError that names the method and the class."""
        machine = Machine()

        assert "started" == machine.start()
        with pytest.raises(
            RuntimeError,
            match=r"Machine.start: this Machine has run it before \(expected one call, got two\). Create a new",
        ):
            machine.start()
        assert 1 == machine.starts

    def test_property_setter(self):
        """A property may be set once on each instance."""
        machine, other = Machine(), Machine()
        machine.owner = "me"
        other.owner = "you"

        with pytest.raises(RuntimeError, match="owner: .*expected one call"):
            machine.owner = "she"
        assert ["me", "you"] == [machine.owner, other.owner]

    def test_a_failed_call_does_not_count(self):
        """A call that raised may be repeated, and a successful call may not."""
        machine = Machine()
        for _ in range(2):
            with pytest.raises(OSError, match="no power"):
                machine.start_if_it_works()
        machine.works = True
        machine.start_if_it_works()

        with pytest.raises(RuntimeError, match="expected one call"):
            machine.start_if_it_works()

    def test_it_cannot_call_itself(self):
        """A recursive call raises."""
        with pytest.raises(RuntimeError, match="expected one call"):
            Machine().start_twice()

    def test_override_calls_super(self):
        """A decorated method may call the decorated method of its base class."""
        machine = BigMachine()

        assert "started big" == machine.start()
        with pytest.raises(RuntimeError, match=r"BigMachine\.start"):
            machine.start()


class TestGraphMemoized:
    tf = pytest.importorskip("tensorflow").compat.v1

    @pytest.fixture
    def constant(self):
        @graph_memoized
        def constant(value, name="c"):
            return self.tf.constant(value, name=name)

        return constant

    def test_once_per_graph(self, constant):
        """Each default graph has one result for each set of arguments."""
        first = constant(1)
        with self.tf.Graph().as_default() as graph:
            second = constant(1)

        assert first is constant(1)
        assert first is not constant(2)
        assert first is not constant(1, name="other")
        assert second.graph is graph

    def test_branches_are_separate(self, constant, sess):
        """The graph of a branch, which inherits the collections around it, has its own results."""
        outer = constant(1.0)

        def branch():
            assert (constant(1.0) is outer) == (self.tf.get_default_graph() is outer.graph)
            return constant(1.0) + constant(2.0)

        condition = self.tf.placeholder_with_default(True, [])
        result = self.tf.cond(condition, branch, lambda: self.tf.constant(2.0))
        assert [3.0, 2.0] == [sess.run(result, {condition: value}) for value in (True, False)]
        assert outer is constant(1.0)

    def test_functions_are_separate(self):
        """Two functions with equal arguments do not share results."""
        first = graph_memoized(lambda x: self.tf.constant(x))

        @graph_memoized
        def second(x):
            return self.tf.constant(-x)

        assert first(1) is not second(1)

    @pytest.mark.slow
    def test_graphs_are_released(self, constant):
        """A remembered tensor does not keep its graph alive."""
        with self.tf.Graph().as_default() as graph:
            constant(1)
        reference = weakref.ref(graph)
        del graph
        gc.collect()

        assert reference() is None


class TestLogOnce:
    @pytest.fixture(autouse=True)
    def forget(self):
        log_once.cache_clear()

    def test_a_message_is_logged_once(self, capsys):
        """Each message is logged once, by the given function of the logger."""
        for _ in range(3):
            log_once("one")
        log_once("two")

        log_once("careful", func="warning")

        lines = [line.split("] ")[1] for line in capsys.readouterr().out.splitlines()]
        assert ["one", "two", "WRN careful"] == lines


class TestShapes:
    @pytest.mark.parametrize("a", [3, np.int64(3), np.int32(3), np.uint8(3), (3, 3), [3, 3], (2, 5)])
    def test_shape2d(self, a):
        """An integer of Python or NumPy becomes a list of two, and a pair becomes a new list."""
        result = shape2d(a)

        assert (list(a) if isinstance(a, (tuple, list)) else [3, 3]) == result
        assert isinstance(result, list)
        assert result is not a

    def test_shape2d_length(self):
        """A list of another length raises a ValueError."""
        with pytest.raises(ValueError, match=r"wrong length \(expected an integer or a list of two, got \[1, 2, 3\]\)"):
            shape2d([1, 2, 3])

    @pytest.mark.parametrize("a", ["33", 3.0, None])
    def test_shape2d_type(self, a):
        """Another type raises a RuntimeError."""
        with pytest.raises(RuntimeError, match=rf"wrong type \(expected an integer or a list of two, got {a!r}\)"):
            shape2d(a)

    @pytest.mark.parametrize(
        ("data_format", "shape"),
        [
            ("NHWC", [1, 2, 5, 1]),
            ("channels_last", [1, 2, 5, 1]),
            ("NCHW", [1, 1, 2, 5]),
            ("channels_first", [1, 1, 2, 5]),
        ],
    )
    def test_shape4d(self, data_format, shape):
        """The shape has height 2 and width 5 in the positions of the data format."""
        assert shape == shape4d((2, 5), data_format)

    @pytest.mark.parametrize(("names"), [("NHWC", "channels_last"), ("NCHW", "channels_first")])
    def test_get_data_format(self, names):
        """Keras's and TensorFlow's names are both accepted and returned."""
        tensorflow_name, keras_name = names

        assert [keras_name] * 2 == [get_data_format(name) for name in names]
        assert [tensorflow_name] * 2 == [get_data_format(name, keras_mode=False) for name in names]

    def test_get_data_format_unknown(self):
        """An unknown name raises a ValueError that lists the known ones."""
        with pytest.raises(ValueError, match="expected 'NHWC', .*got 'NWHC'"):
            get_data_format("NWHC")

    def test_shape4d_default(self):
        """The default data format is NHWC."""
        assert [1, 3, 3, 1] == shape4d(3)
