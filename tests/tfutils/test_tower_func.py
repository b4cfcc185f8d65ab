"""Tests of tfutils/tower/func.py and handle.py: calling a tower function and looking up its tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.placeholder import build_or_reuse_placeholder
from tensorpack_lite.tfutils.tower.context import PredictTowerContext, TowerContext, TrainTowerContext
from tensorpack_lite.tfutils.tower.func import TowerFunc

SIGNATURE = [TensorSpec([None], tf.float32, "x")]


def model(x):
    w = tf.get_variable("fc/W", shape=[], initializer=tf.constant_initializer(2.0))
    return tf.multiply(w, x, name="y")


@pytest.fixture
def tower_func():
    return TowerFunc(model, SIGNATURE)


class TestTowerFunc:
    def test_records_towers(self, tower_func):
        """Each call adds a handle with its context, inputs and outputs."""
        x = tf.placeholder(tf.float32, [None], "x")
        with TowerContext("", is_training=True):
            y = tower_func(x)
        handle = tower_func.towers[0]
        assert 1 == len(tower_func.towers)
        assert handle.inputs[0] is x
        assert handle.outputs is y
        assert (handle.input, handle.output) == (handle.inputs, y)
        assert ("", "", True) == (handle.ns_name, handle.vs_name, handle.is_training)

    def test_wrapping_a_tower_func_shares_it(self, tower_func):
        """A TowerFunc of a TowerFunc shares its function and its towers."""
        again = TowerFunc(tower_func, SIGNATURE)
        with TowerContext("", is_training=True):
            again(tf.zeros([1]))
        assert 1 == len(tower_func.towers) == len(again.towers)
        assert SIGNATURE == TowerFunc(tower_func).input_signature

    def test_second_inference_tower_of_one_name(self, tower_func):
        """A second inference tower with the same name raises a ValueError. Training towers may be built again."""
        for reuse in (False, True):
            with tf.variable_scope(tf.get_variable_scope(), reuse=reuse), PredictTowerContext(""):
                tower_func(tf.zeros([1]))
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), PredictTowerContext("inference"):
            tower_func(tf.zeros([1]))
        reuse = tf.variable_scope(tf.get_variable_scope(), reuse=True)
        with reuse, PredictTowerContext("inference"), pytest.raises(
            ValueError, match="this graph already has a tower named 'inference'"
        ):
            tower_func(tf.zeros([1]))

    def test_same_name_in_another_graph(self, tower_func):
        """The same name can be used in several graphs."""
        for _ in range(2):
            with tf.Graph().as_default(), PredictTowerContext("inference"):
                tower_func(tf.zeros([1]))
        assert 2 == len(tower_func.towers)

    def test_wrong_number_of_inputs(self):
        """A number of inputs that differs from the signature raises a ValueError."""
        tower_func = TowerFunc(lambda *args: args[0], SIGNATURE)
        with TowerContext("", is_training=True), pytest.raises(ValueError, match=r"expected 1: x:0, got 2"):
            tower_func(tf.zeros([1]), tf.zeros([1]))


class TestHandles:
    @pytest.fixture
    def towers(self, tower_func):
        """Towers: tower0 trained on a staged input, tower1 trained with its own variables, and one for inference."""
        placeholder = build_or_reuse_placeholder(SIGNATURE[0])
        with TrainTowerContext("tower0", index=0, total=2):
            tower_func(tf.identity(placeholder, name="staged"))
        with TrainTowerContext("tower1", vs_name="tower1", index=1, total=2):
            tower_func(placeholder)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True), PredictTowerContext("inference"):
            tower_func(placeholder)
        return tower_func.towers

    def test_filters(self, towers):
        """training() and inference() filter the towers, which can be indexed by name and number."""
        assert ["tower0", "tower1"] == [t.ns_name for t in towers.training()]
        assert ["inference"] == [t.ns_name for t in towers.inference()]
        assert "tower1" == towers["tower1"].ns_name == towers[1].ns_name

    def test_tensors(self, towers):
        """A name means the tensor in the tower, with or without :0, in the handle's graph; an input's name the given tensor."""
        with tf.Graph().as_default():
            assert "tower0/y:0" == towers[0]["y"].name == towers[0].get_tensor("y:0").name
        assert ["tower0/staged:0", "x:0"] == [towers[k]["x"].name for k in (0, 1)]
        hides = TowerFunc(lambda x: tf.identity(x, name="x"), SIGNATURE)
        given = tf.zeros([1], name="given")
        with TowerContext("tower2", is_training=True):
            hides(given)
        assert given is hides.towers[0]["x"]

    def test_variable_means_its_value(self, towers, sess):
        """A variable's name means the value of this tower's variable."""
        sess.run(tf.global_variables_initializer())
        assert 2.0 == sess.run(towers[0]["fc/W"])
        assert 2.0 == sess.run(towers[0].get_variable("fc/W:0"))
        assert "tower1/fc/W/Read/ReadVariableOp:0" == towers[1].get_variable("fc/W").name
        assert ["fc/W/Read/ReadVariableOp:0"] == [t.name for t in towers["inference"].get_variables(["fc/W"])]

    def test_unknown_names(self, towers):
        """An unknown name raises a KeyError that lists the nearest names, or the towers; a missing one a ValueError."""
        with pytest.raises(KeyError, match=r"'tower0/yy:0' is not in .* nearest names are: .*tower0/y"):
            towers[0]["yy"]
        with pytest.raises(KeyError, match=r"no tower 'tower7'. .*: \['inference', 'tower0', 'tower1'\]"):
            towers["tower7"]
        with pytest.raises(ValueError, match="the name of the collection is missing"):
            towers[0].get_collection()

    def test_collection(self, towers):
        """The collection of a tower contains its variables, not those of later towers."""
        assert ["fc/W"] == [v.op.name for v in towers[0].get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)]
        assert ["tower1/fc/W"] == [v.op.name for v in towers[1].get_collection(name=tf.GraphKeys.TRAINABLE_VARIABLES)]

    def test_values(self, towers, sess):
        """All towers compute the same values from the same input."""
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        outputs = sess.run([t["y"] for t in towers], {"x:0": np.array([1.0, 3.0])})
        for output in outputs:
            assert [2.0, 6.0] == output.tolist()


class TestSecondTraining:
    def test_advice(self, tower_func):
        """A second model in a graph with the same variables raises an error that recommends a separate graph."""
        with TowerContext("", is_training=True):
            tower_func(tf.zeros([1]))
        with pytest.raises(ValueError, match=r"with tf\.Graph\(\)\.as_default\(\):"), TowerContext(
            "", is_training=True
        ):
            TowerFunc(model, SIGNATURE)(tf.zeros([1]))

    def test_sharing_on_purpose(self, tower_func):
        """Two models can share variables in a scope with AUTO_REUSE."""

        def shared(x):
            with tf.variable_scope("shared", reuse=tf.AUTO_REUSE):
                return model(x)

        for _ in range(2):
            with TowerContext("", is_training=True):
                TowerFunc(shared, SIGNATURE)(tf.zeros([1]))
        assert 1 == len(tf.global_variables())


def test_a_handle_in_a_tower_function_is_explained(fresh_graph):
    """A tower function that uses the handle of a variable as its value raises an error with the line to write."""

    def tower(x):
        tf.get_variable("W", [2, 2])
        return x + fresh_graph.get_tensor_by_name("W:0")

    function = TowerFunc(tower, [tf.TensorSpec([2, 2], tf.float32, "x")])
    with pytest.raises(TypeError, match=r"The tower function: the handle of a variable.*get_tensors_by_names"):
        with TowerContext("", is_training=True):
            function(tf.zeros([2, 2]))
