"""Errors about misspelt arguments name the one that was probably meant."""

from __future__ import annotations

import pytest

from tensorpack_lite.utils.arguments import explain_argument


class Saver:
    def __init__(self, max_to_keep=10, directory=None):
        if directory is not None:
            print(colour="red")


def make(**kwargs):
    with explain_argument(Saver.__init__, kwargs, left_out=1):
        return Saver(**kwargs)


def test_a_similar_name():
    """The error names the class, the misspelt argument and the nearest one, and hides Python's error."""
    with pytest.raises(
        TypeError, match="^Saver: there is no argument 'max_to_keeep'. Did you mean 'max_to_keep'.$"
    ) as error:
        make(max_to_keeep=3)
    assert error.value.__suppress_context__


def test_no_similar_name():
    """If no name is similar, the error lists all arguments, without self."""
    with pytest.raises(TypeError, match="Its arguments are: max_to_keep, directory.$"):
        make(period=3)


def test_an_error_inside():
    """The same kind of error in another call, inside of the function, is not changed."""
    with pytest.raises(TypeError, match="'colour'") as error:
        make(directory="x")
    assert "Saver" not in str(error.value)
