"""Attributes of users' objects without running their code, and calls of users' functions with a time limit."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from tensorpack_lite.dataflow.meter import stage_name
from tensorpack_lite.utils.inspection import call_within, static_attribute


class Stage:
    """An object with an attribute of each kind."""

    calls: list = []
    default = "of the class"
    replaced = "of the class"

    def __init__(self):
        self.own = "of the object"
        self.replaced = "of the object"
        self.replaced_method = "of the object"

    def method(self):
        """Return nothing."""

    def replaced_method(self):
        """Return nothing."""

    @property
    def computed(self):
        """Note that it was called."""
        self.calls.append("property")

    def __getattr__(self, name):
        self.calls.append(name)
        return name


class WithoutDict:
    __slots__ = ("own",)

    def __init__(self):
        self.own = "in a slot"


class Asked(Stage):
    def __getattribute__(self, name):
        Stage.calls.append(name)
        return object.__getattribute__(self, name)


class TestStaticAttribute:
    @pytest.mark.parametrize("kind", [Stage, Asked])
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("own", "of the object"),
            ("default", "of the class"),
            ("replaced", "of the object"),
            ("replaced_method", "of the object"),
            ("method", Stage.method),
            ("computed", vars(Stage)["computed"]),
            ("missing", "default value"),
        ],
    )
    def test_value(self, kind, name, expected):
        """The value is that of the object or else of its class, and nothing of the class is called."""
        value = kind()
        Stage.calls.clear()
        found = static_attribute(value, name, "default value")
        assert expected == found
        assert [] == Stage.calls

    def test_slot(self):
        """The descriptor of a slot is returned, not its value."""
        assert vars(WithoutDict)["own"] is static_attribute(WithoutDict(), "own")

    def test_module_and_class(self):
        """Attributes of modules and classes are found, too."""
        assert __file__ == static_attribute(sys.modules[__name__], "__file__")
        assert "of the class" == static_attribute(Stage, "default")

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.11 is the first without a __dict__ in each object")
    @pytest.mark.parametrize("read", [stage_name, lambda value: static_attribute(value, "replaced")])
    def test_no_dict_is_made(self, read):
        """The object gets no `__dict__`, which would make each of its attributes slower."""
        value = Stage()
        read(value)
        referents = gc.get_referents(value)
        assert value.own in referents
        assert not any(type(one) is dict for one in referents)


class TestCallWithin:
    def test_result(self):
        """The result of the function is returned."""
        assert 3 == call_within(60, lambda: 3)

    def test_error(self):
        """A function that raises an error has no result."""
        assert None is call_within(60, lambda: 1 / 0)

    @pytest.mark.slow
    def test_a_function_that_blocks(self):
        """A function that blocks has no result. It continues in a daemon thread."""
        may_end = threading.Event()
        try:
            assert None is call_within(0, may_end.wait)
        finally:
            may_end.set()
