"""Under `tensorpack-lite run`, translated files compute what Python 2 computed."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_division_in_place(output):
    """`/=` changes arrays in place, rounds integers down, and evaluates its object and index once."""
    lines, _ = output(
        """
        import numpy as np
        print "start"
        def halve(a):
            a /= 2.0
        floats, integers = np.array([1.0, 3.0]), np.array([5, 7])
        halve(floats)
        same = integers
        same /= 2
        print floats.tolist(), integers.tolist()
        class Count(object):
            def __init__(self): self.n, self.__hidden = 7, 9
            def hidden(self):
                self.__hidden /= 2
                return self.__hidden
        c, calls = Count(), []
        def get(value):
            calls.append(1)
            return value
        get(c).n /= 2
        items = [7, 7.0]
        get(items)[get(0)] /= 2
        items[1] /= 2
        floats[:1] /= 2
        table = np.ones((2, 2))
        table[1:, 0] /= 4
        print c.n, c.hidden(), items, len(calls), floats.tolist(), table.tolist()
        class Own(object):
            def __idiv__(self, other): return "own"
        own = Own()
        own /= 2
        print own
        """
    )
    assert lines == [
        "start",
        "[0.5, 1.5] [2, 3]",
        "3 4 [3, 3.5] 3 [0.25, 1.5] [[1.0, 1.0], [0.25, 1.0]]",
        "own",
    ]


def test_rounding(output):
    """`round`, `math.ceil` and `math.floor` give floats; `round` rounds halves away from zero."""
    lines, _ = output(
        """
        import math
        from math import ceil, floor
        print "start"
        print math.ceil(6.5) / 2, math.floor(7.5) / 2, ceil(2) / 4, floor(1) / 2, math.ceil(float("inf"))
        print round(2.5), round(-2.5), round(0.125, 2), round(1234, -2), round(7.2) / 2, round(1e300), map(round, [0.5])
        """
    )
    assert lines == ["start", "3.5 3.5 0.5 0.5 inf", "3.0 -3.0 0.13 1200.0 3.5 1e+300 [1.0]"]


def test_own_round_stays(output):
    """A function that the file itself calls round is not replaced."""
    lines, _ = output("def round(x):\n    return 'own'\nprint round(2.5)\n")
    assert lines == ["own"]


def test_comparison(output):
    """Objects of a class with `__cmp__` are compared by it, and keep their hash."""
    lines, _ = output(
        """
        class Version(object):
            def __init__(self, n): self.n = n
            def __cmp__(self, other): return cmp(self.n, other.n)
            def __ne__(self, other): return "own"
        class Newer(Version): pass
        a, b = Version(1), Newer(2)
        print a < b, a <= b, a > b, a >= b, a == b, a == Version(1), a != b, cmp(b, a), max(a, b).n, len({a: 1, b: 2})
        """
    )
    assert lines == ["True True False False False True own 1 2 2"]


def test_execfile(output, write):
    """`execfile` runs a file in the names of the module, so that its functions see later changes."""
    write("config.py", "rate = 1\nprint 'rate', rate\ndef get_rate():\n    return rate\n")
    lines, _ = output(
        """
        execfile("config.py")
        rate = 2
        print get_rate()
        names, local = {}, {}
        execfile("config.py", names, local)
        print sorted(local), "rate" in names
        """
    )
    assert lines == ["rate 1", "2", "rate 1", "['get_rate', 'rate'] False"]


def test_decode(output):
    """`decode` of a text gives the text itself for an encoding of text, and otherwise what the codec gives."""
    lines, _ = output(
        r"""
        print "start"
        print "a".decode("utf-8"), "a".decode(), "a".decode(encoding="latin-1"), "uryyb".decode("rot13")
        print repr("6869".decode("hex")), repr("aGk=".decode("base64")), repr(r"a\n".decode("string_escape"))
        print repr(r"\x41".decode("unicode_escape"))
        try:
            "a".decode("nothing")
        except LookupError, error:
            print error
        """
    )
    assert lines == [
        "start",
        "a a a hello",
        r"b'hi' b'hi' 'a\n'",
        "'A'",
        "unknown encoding: nothing",
    ]
