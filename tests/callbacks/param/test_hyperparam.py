"""GraphVarParam and ObjAttrParam."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tensorpack_lite.callbacks.param.hyperparam import GraphVarParam, ObjAttrParam
from tensorpack_lite.compat import tfv1 as tf


def initialized(session, name="lr", **arguments):
    """Set up a GraphVarParam, initialize all variables and finalize the graph."""
    param = GraphVarParam(name, **arguments)
    param.setup_graph()
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    session.graph.finalize()
    return param


class TestGraphVarParam:
    @pytest.mark.parametrize("use_resource", [False, True])
    @pytest.mark.parametrize("collection", [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES])
    def test_set_and_get(self, sess, use_resource, collection):
        """A global or local variable, resource or ref, can be set in a finalized graph."""
        tf.get_variable("lr", initializer=0.5, use_resource=use_resource, collections=[collection])
        param = initialized(sess)

        assert 0.5 == param.get_value()
        param.set_value(0.25)
        assert 0.25 == param.get_value()
        param.set_value(np.float64(2))
        assert 2.0 == param.get_value()

    @pytest.mark.parametrize("name", ["lr", "lr:0"])
    def test_names(self, name):
        """The name is accepted with and without `:0`, and shown without."""
        tf.get_variable("lr", initializer=0.5)
        param = GraphVarParam(name)
        param.setup_graph()

        assert "lr:0" == param.var.name
        assert "lr" == param.readable_name

    def test_a_tensor_cannot_be_set(self):
        """A decayed learning rate is a tensor: the ValueError asks for a variable."""
        step = tf.train.create_global_step()
        tf.train.exponential_decay(0.1, step, 1, 0.5, name="lr")
        with pytest.raises(
            ValueError,
            match=r"GraphVarParam: 'lr' is not a variable.*in optimizer\(\): rate = .*get_variable",
        ):
            GraphVarParam("lr").setup_graph()

    def test_the_name_is_exact(self):
        """A variable whose name only ends in the given name is not used."""
        tf.get_variable("a/lr", initializer=0.5)
        with pytest.raises(ValueError, match="'lr' is not a variable"):
            GraphVarParam("lr").setup_graph()

    def test_a_shape(self, sess):
        """A vector can be set if its shape is given."""
        tf.get_variable("v", initializer=np.zeros(3, "float32"))
        param = initialized(sess, "v", shape=[3])
        param.set_value([1, 2, 3])

        np.testing.assert_array_equal([1, 2, 3], param.get_value())

    def test_another_shape(self):
        """A variable of another shape raises ValueError."""
        tf.get_variable("v", initializer=np.zeros(3, "float32"))
        with pytest.raises(ValueError, match=r"wrong shape of variable 'v' .expected \(\), got \(3,\)"):
            GraphVarParam("v").setup_graph()

    def test_integers(self, sess):
        """An integer variable accepts integers, and raises ValueError for a float."""
        tf.get_variable("n", initializer=3)
        param = initialized(sess, "n")
        param.set_value(5)

        assert 5 == param.get_value()
        with pytest.raises(ValueError, match="wrong type for variable 'n' .expected int32, got 0.5"):
            param.set_value(0.5)

    def test_a_session_is_needed(self):
        """Without a default session, RuntimeError is raised."""
        tf.get_variable("lr", initializer=0.5)
        param = GraphVarParam("lr")
        param.setup_graph()
        with pytest.raises(RuntimeError, match="GraphVarParam: there is no default session"):
            param.get_value()


class TestObjAttrParam:
    def test_set_and_get(self):
        """The attribute of the object is set."""
        obj = SimpleNamespace(rate=1)
        param = ObjAttrParam(obj, "rate")
        param.set_value(2)

        assert 2 == obj.rate == param.get_value()

    def test_names(self):
        """The attribute's name is shown unless another name is given."""
        assert "rate" == ObjAttrParam(None, "rate").readable_name
        assert "speed" == ObjAttrParam(None, "rate", "speed").readable_name
