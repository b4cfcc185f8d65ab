"""Stand-ins for names that nothing provides."""

from __future__ import annotations

import importlib.util
import inspect

import pytest

from tensorpack_lite.tf1.unsupported import Unsupported, unsupported_spec

MESSAGE = "x.Player: Use gymnasium."


def test_uses_are_errors():
    """Calls, attributes, and objects of a derived class raise the sentence."""
    player = Unsupported(MESSAGE)

    class Own(player):
        """A class of a script."""

    with pytest.raises(NotImplementedError, match=MESSAGE):
        player(1, a=2)
    with pytest.raises(NotImplementedError, match=MESSAGE):
        Own(3)
    with pytest.raises(AttributeError, match=MESSAGE):
        player.reset()


def test_other_uses():
    """A stand-in can be compared and inspected, and nothing is an instance of it."""
    player = Unsupported(MESSAGE)
    assert not isinstance(3, player)
    assert not hasattr(player, "__wrapped__")
    assert inspect.isclass(player) is False
    assert player == player


def test_module():
    """A module has each public name, as a stand-in, and no private ones."""
    module = importlib.util.module_from_spec(unsupported_spec("x.old", MESSAGE))
    module.__spec__.loader.exec_module(module)
    assert "x.old" == module.__name__
    with pytest.raises(NotImplementedError, match=MESSAGE):
        module.Player()
    assert not hasattr(module, "__all__")
