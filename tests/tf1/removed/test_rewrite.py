"""Uses of removed names in a syntax tree."""

from __future__ import annotations

import ast

import pytest

from tensorpack_lite.tf1.removed.rewrite import rewrite


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ('open("a", "rU")', ['open(..., "rU")']),
        ('open("a", mode="rU")', ['open(..., "rU")']),
        ('open("a", "r")', []),
        ('open("a", U)', []),
        ('File("a")', ["File(path)"]),
        ('File("a", 1)', []),
    ],
)
def test_modes(call, found):
    """Modes are found without a warning of the running Python, which would be an error here."""
    assert found == [use.name for use in rewrite(ast.parse(call))]
