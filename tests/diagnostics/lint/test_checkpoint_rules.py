"""The rule of lint about values that are restored."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.linted import lint

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.models import Conv2D, FullyConnected
from tensorpack_lite.tfutils.sessinit import ChainInit, DictRestore, SaverRestore, SessionInit
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars

SHAPES = {"conv/W": (3, 3, 3, 8), "conv/b": (8,), "fc/W": (512, 10), "fc/b": (10,)}


def network(image, label):
    """Two layers, with the variables of SHAPES."""
    return tf.reduce_mean(FullyConnected("fc", Conv2D("conv", image, 8, 3), 10))


def inside_a_scope(image, label):
    """The same network in a scope."""
    with tf.variable_scope("net"):
        return network(image, label)


def values(prefix="", names=tuple(SHAPES), **others):
    """Return zeros for some variables."""
    return {**{prefix + name: np.zeros(SHAPES[name], "float32") for name in names}, **others}


class Unknown(SessionInit):
    """An initializer of a user."""


@pytest.mark.parametrize("as_file", [False, True])
def test_the_model_has_a_prefix(tmp_path, as_file):
    """A remark names the scope that the file does not have; with the argument that it advises, there is none."""
    init, path = values(), str(tmp_path / "model-1")
    save_checkpoint_vars(init, path)
    (remark,) = lint(inside_a_scope, init=SaverRestore(path) if as_file else init)
    assert "4 variables are not restored, because net/conv/W is called conv/W in the file." == remark.text
    assert "SaverRestore(path, prefix='net')" in remark.advice
    with tf.Graph().as_default():
        assert [] == lint(inside_a_scope, init=SaverRestore(path, prefix="net"))


def test_the_file_has_a_prefix():
    """A remark names the scope that the file has and the model does not have."""
    (remark,) = lint(network, init=values("old/net/"))
    assert "4 variables are not restored, because conv/W is called old/net/conv/W in the file." == remark.text
    assert "remove 'old/net/'" in remark.advice


def test_other_names():
    """A remark lists variables without counterpart if most of both sides have none."""
    init = {"first/kernel": np.zeros(3), "first/bias": np.zeros(3), "conv/b": np.zeros(8)}
    (remark,) = lint(network, init=init)
    assert "G10" == remark.rule
    assert "only 1 of 5 variables are restored" in remark.text
    assert "first/kernel, first/bias of the file" in remark.text


@pytest.mark.parametrize(
    "init",
    [
        None,
        values(),
        values(names=["conv/W", "conv/b"]),
        values(other=np.zeros(3), **{"fc2/W": np.zeros(5)}),
        values(**{"conv/W/Momentum": np.zeros(3), "net/conv/W/Momentum": np.zeros(3)}),
        [values(names=["conv/W", "conv/b"]), values(names=["fc/W", "fc/b"])],
        Unknown(),
        ChainInit([Unknown(), DictRestore(values("old/"))]),
    ],
    ids=["nothing", "all", "backbone", "more", "optimizer", "two files", "unknown", "unknown and known"],
)
def test_usual_files(init):
    """Files with a part of the model, or with more than the model, have no remark."""
    assert [] == lint(network, init=init)


def test_two_copies_of_a_network():
    """If the file's variables are all used, a second network with the same names below a scope may start at random."""

    def two(image, label):
        return network(image, label) + inside_a_scope(image, label)

    assert [] == lint(two, init=values())
