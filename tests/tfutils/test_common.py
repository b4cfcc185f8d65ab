"""Tests of tfutils/common.py: configuration, global step, names."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import common


def test_session_config():
    """The default configuration, new each time, has soft placement, one thread inside an operation, and memory growth."""
    config = common.get_default_sess_config(0.5)
    assert config is not common.get_default_sess_config(0.5)
    assert config.allow_soft_placement
    assert (1, 0) == (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads)
    gpu = config.gpu_options
    assert (0.5, True) == (gpu.per_process_gpu_memory_fraction, gpu.allow_growth)


def test_version():
    """The version is a pair of numbers, at least 1.15."""
    assert (1, 15) <= common.get_tf_version_tuple()


class TestGlobalStep:
    def test_is_at_the_root(self):
        """Inside scopes, also of reuse, each graph has one: an int64 scalar, a global resource variable that is not trained."""
        with tf.variable_scope("v", reuse=True), tf.name_scope("n"):
            step = common.get_global_step_var()
        assert step is common.get_global_step_var()
        assert ("global_step", tf.int64, []) == (step.op.name, step.dtype.base_dtype, step.shape.as_list())
        assert ("VarHandleOp", [step]) == (step.op.type, tf.global_variables())
        assert [] == tf.trainable_variables()

    def test_custom_getters_do_not_see_it(self):
        """Custom getters of the current scope do not apply to the global step."""

        def getter(getter, name, *args, **kwargs):
            raise AssertionError("asked")

        with tf.variable_scope("v", custom_getter=getter):
            common.get_global_step_var()

    def test_created_by_tensorflow(self):
        """A global step created by TensorFlow is used."""
        step = tf.train.get_or_create_global_step()
        assert step is common.get_global_step_var()

    def test_value(self, sess):
        """The value is read in the default session, even if another graph is the default."""
        step = common.get_global_step_var()
        sess.run(step.initializer)
        sess.run(step.assign_add(3))
        with tf.Graph().as_default() as other:
            assert 3 == common.get_global_step_value()
        assert [] == other.get_operations()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x", ("x", "x:0")), ("x:0", ("x", "x:0")), ("a/x:12", ("a/x", "a/x:12")), ("a:b", ("a:b", "a:b:0"))],
)
def test_op_tensor_name(name, expected):
    """The operation and tensor are found for either name, with indices of any length."""
    assert expected == common.get_op_tensor_name(name)


class TestNames:
    @pytest.fixture(params=[True, False], ids=["resource", "ref"])
    def var(self, request):
        """A variable of each kind that TensorFlow has."""
        return tf.get_variable("v", initializer=3.0, use_resource=request.param)

    def test_operation_and_tensor(self):
        """The name of an operation means its first output, or itself in get_op_or_tensor_by_name; a list gives a list."""
        x = tf.constant(1, name="x")
        assert [x, x] == common.get_tensors_by_names(["x", "x:0"])
        assert x.op is common.get_op_or_tensor_by_name("x")
        assert [x.op, x] == common.get_op_or_tensor_by_name(["x", "x:0"])
        with pytest.raises(KeyError, match="'x:3' is not in the graph"):
            common.get_op_or_tensor_by_name("x:3")

    def test_value_of_variable(self, var, sess):
        """The name of a variable means its value."""
        sess.run(var.initializer)
        assert [3.0, 3.0] == sess.run(common.get_tensors_by_names(["v", "v:0"]))
        assert 3.0 == sess.run(common.get_op_or_tensor_by_name("v:0"))

    @pytest.mark.parametrize("function", [common.get_op_or_tensor_by_name, lambda n: common.get_tensors_by_names([n])])
    def test_unknown(self, function):
        """An unknown name raises a KeyError that lists the nearest names."""
        tf.constant(1, name="tower0/cost")
        with pytest.raises(KeyError, match="'costs.*' is not in the graph. The nearest names are: tower0/cost"):
            function("costs")

    @pytest.mark.parametrize(("name", "advised"), [("tower0/logits", True), ("tower0/costs", False)])
    def test_how_to_name_a_tensor(self, name, advised):
        """Unless the name is nearly that of a tensor, the error explains how to give a tensor a name."""
        tf.constant(1, name="tower0/cost")
        with pytest.raises(KeyError) as error:
            common.get_op_or_tensor_by_name(name)
        assert advised == ("write x = tf.identity(x, name='logits') in the model" in str(error.value))


def test_gpu_available(sess):
    """A session with only CPU devices has no GPU."""
    assert any(d.device_type == "GPU" for d in sess.list_devices()) == common.gpu_available_in_session()
