"""compat/value_names.py: the name of a variable means its value."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.look_ups import install_value_names

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.compat.value_names import explain_handles, install, refuse_feed, value_of

W = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def make_variable(name="scope/W", value=W):
    return tf.get_variable(name, initializer=tf.constant(value), use_resource=True)


@pytest.fixture
def installed(monkeypatch):
    """TensorFlow's look-ups give values during a test."""
    install_value_names(monkeypatch)


class TestValueOf:
    def test_other_elements(self):
        """A handle without a read, and tensors and operations that belong to no variable, stay, and can be fed."""
        one = tf.constant(1.0)
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="x", name="bare")
        for element in (handle, one, one.op):
            assert value_of(element) is element
        refuse_feed(one, "f")


@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_a_target_network_update(self, sess, fresh_graph):
        """`v.assign(graph.get_tensor_by_name('scope/W:0'))` copies a variable, as in TensorFlow 1."""
        make_variable()
        copy = make_variable("target/W", 0 * W)
        update = copy.assign(fresh_graph.get_tensor_by_name("scope/W:0"))
        sess.run(tf.global_variables_initializer())
        sess.run(update)
        assert W.tolist() == sess.run(copy).tolist()

    def test_names_in_fetches(self, sess, fresh_graph):
        """`Session.run` returns the value for the name of a variable, in any structure, and in a final graph."""
        make_variable()
        one = tf.constant(1.0, name="one")
        sess.run(tf.global_variables_initializer())
        fresh_graph.finalize()  # no operation is created
        assert W.tolist() == sess.run(fresh_graph.get_tensor_by_name("scope/W:0")).tolist()
        assert W.tolist() == sess.run("scope/W:0").tolist()
        values = sess.run({"a": ["scope/W:0", one], "b": ("one:0", "one")})
        assert (W.tolist(), 1.0, 1.0, None) == (values["a"][0].tolist(), values["a"][1], *values["b"])
        assert W.tolist() == sess.make_callable("scope/W:0")().tolist()
        install()  # a second time changes nothing
        assert W.tolist() == sess.run("scope/W:0").tolist()

    def test_a_graph_that_is_not_the_default_one(self):
        """Names are looked up in the graph of the session."""
        with tf.Graph().as_default() as other:
            make_variable()
            session = tf.Session()
            session.run(tf.global_variables_initializer())
        make_variable(value=0 * W)
        with session:
            assert W.tolist() == session.run("scope/W:0").tolist()
        assert other.get_tensor_by_name("scope/W:0").graph is other

    def test_ref_variables(self, sess, fresh_graph):
        """The names of ref variables still mean the variables, which can be assigned and fed."""
        variable = tf.get_variable("ref", initializer=1.0, use_resource=False)
        tensor = fresh_graph.get_tensor_by_name("ref:0")
        sess.run(variable.initializer)
        assert 3.0 == sess.run(tf.assign(tensor, 3.0))
        assert 5.0 == sess.run(variable * 1.0, {"ref:0": 5.0})

    def test_feeding(self, sess, fresh_graph):
        """Feeding a variable, or the tensor that its name gave, is an error: other reads would not see it. Others can be fed."""
        variable = make_variable()
        sess.run(tf.global_variables_initializer())
        for key in ("scope/W:0", fresh_graph.get_tensor_by_name("scope/W:0")):
            with pytest.raises(ValueError, match="'scope/W:0' is a variable, which cannot be fed"):
                sess.run(variable * 2.0, {key: W})
        tf.multiply(tf.placeholder(tf.float32, [], name="x"), tf.constant(2.0, name="two"), name="product")
        assert 6.0 == sess.run("product:0", {"x:0": 2.0, "two:0": 3.0})

    def test_gradients(self, sess, fresh_graph):
        """The gradient for the tensor that a name gave includes all reads of the variable, also in a list."""
        variable = make_variable()
        cost = tf.reduce_sum(variable * 3.0) + tf.reduce_sum(variable.read_value() ** 2)
        value = fresh_graph.get_tensor_by_name("scope/W:0")
        sess.run(tf.global_variables_initializer())
        for slope in (tf.gradients(cost, value)[0], tf.gradients(cost, [value, variable])[0]):
            np.testing.assert_allclose(3 + 2 * W, sess.run(slope), rtol=1e-6)

    def test_assignments(self, sess, fresh_graph):
        """`tf.assign` and the like change the variable whose name gave the tensor."""
        variable = make_variable()
        value = fresh_graph.get_tensor_by_name("scope/W:0")
        sess.run(tf.global_variables_initializer())
        sess.run(tf.assign(value, 5 * W))
        sess.run(tf.assign_add(value, W))
        sess.run(tf.assign_sub(value, 2 * W))
        np.testing.assert_allclose(4 * W, sess.run(variable), rtol=1e-6)

    @pytest.mark.parametrize("name", ["nothing:0", "nothing", "scope/W:7"])
    def test_wrong_names(self, sess, fresh_graph, name):
        """Names that do not exist raise TensorFlow's own errors."""
        make_variable()
        with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
            sess.run(name)
        with pytest.raises((KeyError, ValueError), match=name.split(":")[0]):
            fresh_graph.get_tensor_by_name(name)
        with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
            sess.run("scope/W:0", {name: 1})

    def test_a_meta_graph(self, tmp_path, sess):
        """TensorFlow restores variables and conditions from a meta graph, and their names give the values."""
        variable = make_variable()
        flag = tf.placeholder(tf.bool, [], name="flag")
        tf.cond(flag, lambda: variable * 2.0, lambda: variable * 3.0, name="choice")
        sess.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        saver.save(sess, str(tmp_path / "model"))
        with tf.Graph().as_default() as graph, tf.Session() as other:
            tf.train.import_meta_graph(str(tmp_path / "model.meta")).restore(other, str(tmp_path / "model"))
            (restored,) = tf.global_variables()
            assert "VarHandleOp" == restored.handle.op.type
            assert W.tolist() == other.run(graph.get_tensor_by_name("scope/W:0")).tolist()
            other.run(restored.assign(restored + 1.0))
            assert (W + 1).tolist() == other.run("scope/W:0").tolist()


def test_importing_installs_nothing(fresh_graph):
    """Without `install`, TensorFlow's look-up returns the handle."""
    make_variable()
    assert tf.resource == fresh_graph.get_tensor_by_name("scope/W:0").dtype


class TestExplainHandles:
    @pytest.mark.parametrize(
        "use",
        [
            lambda variable, handle: variable.assign(handle),
            lambda variable, handle: handle + 1.0,
            lambda variable, handle: tf.matmul(variable, handle),
            lambda variable, handle: tf.reduce_sum(handle),
            lambda variable, handle: tf.concat([variable, handle], 0),
        ],
    )
    def test_uses_of_a_handle(self, fresh_graph, use):
        """Errors about a handle keep their type and text, and show the line that returns the value."""
        variable = make_variable()
        handle = fresh_graph.get_tensor_by_name("scope/W:0")
        with pytest.raises((TypeError, ValueError)) as plain:
            use(variable, handle)
        with pytest.raises((TypeError, ValueError), match="Here: the handle of a variable was used") as info:
            with explain_handles("Here"):
                use(variable, handle)
        assert type(info.value) is type(plain.value)
        assert "get_tensors_by_names(['scope/W'])[0]" in str(info.value)
        assert type(plain.value) is type(info.value.__cause__)

    def test_once(self, fresh_graph):
        """Code inside other code of the user adds one explanation."""
        make_variable()
        with pytest.raises(TypeError) as info, explain_handles("Outside"), explain_handles("Inside"):
            fresh_graph.get_tensor_by_name("scope/W:0") + 1.0
        assert "Inside: the handle" in str(info.value)
        assert "Outside" not in str(info.value)

    @pytest.mark.parametrize("error", [ValueError("no resource here"), KeyError("dtype resource")])
    def test_other_errors(self, error):
        """Other errors are the same objects as before."""
        with pytest.raises(type(error)) as info, explain_handles("Here"):
            raise error
        assert info.value is error
        assert info.value.__cause__ is None
