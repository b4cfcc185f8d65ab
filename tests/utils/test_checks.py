"""Checks of arguments return valid values and raise errors that name the argument otherwise."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fakes.old_scripts import complete_for_old_scripts

from tensorpack_lite.utils import checks
from tensorpack_lite.utils.checks import (
    check_at_least,
    check_between,
    check_callable,
    check_choice,
    check_count,
    check_fraction,
    check_positive,
    check_type,
)


class TestNumbers:
    @pytest.mark.parametrize(
        ("check", "args"),
        [
            (check_at_least, (1, 1)),
            (check_at_least, (np.int64(3), 1)),
            (check_at_least, (1.5, 1)),
            (check_positive, (0.001,)),
            (check_between, (0, 0, 1)),
            (check_between, (1, 0, 1)),
            (check_fraction, (0,)),
            (check_fraction, (np.float32(0.999),)),
        ],
    )
    def test_a_valid_number_is_returned(self, check, args):
        """A number in the range is returned as it is, at the bounds and with NumPy's types."""
        assert check("f: x", *args) is args[0]

    @pytest.mark.parametrize(
        ("check", "args", "sentence"),
        [
            (check_at_least, (0, 1), "f: x is too small (expected at least 1, got 0)."),
            (check_positive, (0,), "f: x is not positive (expected more than 0, got 0)."),
            (check_between, (1.5, 0, 1), "f: x is out of range (expected 0 to 1, got 1.5)."),
            (check_fraction, (1,), "f: x is out of range (expected 0 <= x < 1, got 1)."),
        ],
    )
    def test_a_number_outside_of_the_range_raises(self, check, args, sentence):
        """A number outside of the range raises a ValueError with the range and the number."""
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            check("f: x", *args)

    @pytest.mark.parametrize(
        ("check", "bounds"),
        [(check_at_least, (1,)), (check_positive, ()), (check_between, (0, 1)), (check_fraction, ())],
    )
    def test_nan_is_never_valid(self, check, bounds):
        """NaN is outside of every range."""
        with pytest.raises(ValueError, match="got nan"):
            check("f: x", float("nan"), *bounds)

    @pytest.mark.parametrize("value", ["3", None, [3]])
    def test_an_object_that_is_not_a_number_raises(self, value):
        """An object that cannot be compared with a number raises a TypeError."""
        name = type(value).__name__
        with pytest.raises(TypeError, match=rf"^f: x has the wrong type \(expected a number, got {name}\)\.$"):
            check_at_least("f: x", value, 1)


class TestChoice:
    def test_a_choice_is_returned(self):
        """A valid value is returned."""
        assert "max" == check_choice("f: mode", "max", ("min", "max"))
        assert check_choice("f: mode", None, (None, "max")) is None

    @pytest.mark.parametrize(
        ("choices", "words"),
        [((1,), "1"), (("min", "max"), "'min' or 'max'"), ((1, 2, None), "1, 2 or None")],
    )
    def test_another_value_raises(self, choices, words):
        """Another value raises a ValueError that lists the choices."""
        with pytest.raises(ValueError, match=rf"^f: mode is unknown \(expected {words}, got 'x'\)\.$"):
            check_choice("f: mode", "x", choices)


class TestType:
    def test_an_instance_is_returned(self):
        """An object of one of the types is returned."""
        value = [1]
        assert check_type("f: x", value, list) is value
        assert check_type("f: x", value, (tuple, list)) is value

    @pytest.mark.parametrize(("types", "words"), [(list, "list"), ((list, tuple), "list or tuple"), ((list,), "list")])
    def test_another_type_raises(self, types, words):
        """Another type raises a TypeError that names the types."""
        with pytest.raises(
            TypeError,
            match=rf"^f: x has the wrong type \(expected {words}, got str\)\. Put it into a list\.$",
        ):
            check_type("f: x", "a", types, advice="Put it into a list.")

    def test_words_for_the_types(self):
        """`expected` replaces the names of the types."""
        with pytest.raises(TypeError, match=r"\(expected a path, got int\)\.$"):
            check_type("f: x", 1, (str, bytes), "a path")

    def test_a_class(self):
        """A class in the place of its object is named, with the call that creates the object."""
        with pytest.raises(TypeError, match=r"\(expected int, got the class TestType; write TestType\(\)\)\.$"):
            check_type("f: x", TestType, int)

    def test_callable(self):
        """A callable is returned, and another object raises a TypeError."""
        assert check_callable("f: func", len) is len
        with pytest.raises(TypeError, match=r"^f: func has the wrong type \(expected a function, got NoneType\)\.$"):
            check_callable("f: func", None)


@pytest.mark.parametrize("value", [22, 22.0, np.int64(22), np.float32(22), "22"])
def test_count(value):
    """Whole numbers of any type, and strings with an integer, are numbers of steps."""
    assert (22, int) == (check_count("f: n", value), type(check_count("f: n", value)))


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (22.45, ValueError, "f: n is not whole .expected an integer, got 22.45."),
        (0, ValueError, "f: n is too small .expected at least 1, got 0."),
        (float("nan"), TypeError, "f: n: expected an integer, got nan"),
        ("many", TypeError, "f: n: expected an integer, got 'many'"),
        (None, TypeError, "f: n: expected an integer, got None"),
    ],
)
def test_wrong_count(value, error, match):
    """Other values raise an error."""
    with pytest.raises(error, match=match):
        check_count("f: n", value, 1)


def test_count_in_an_old_script(monkeypatch, log_lines):
    """In a script that `tensorpack-lite run` starts, a number is rounded down, as in Python 2 and in tensorpack."""
    complete_for_old_scripts(monkeypatch, checks)
    assert 390 == checks.check_count("f: n", 390.625)
    assert ["f: n is 390.625, which is rounded down to 390."] == log_lines
