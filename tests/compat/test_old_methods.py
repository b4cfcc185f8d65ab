"""The public methods that variables had in TensorFlow 1.15, on the variables of a tower."""

from __future__ import annotations

import pytest

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils.tower.context import TowerContext


def one_row():
    return tf.IndexedSlices(tf.ones([1]), tf.constant([0]))


INDEX = [[0]]
SCATTER = ("add", "div", "max", "min", "mul", "sub", "update")
WORKING = {
    "assign": lambda: ([1.0, 2.0],),
    "assign_add": lambda: ([1.0, 2.0],),
    "assign_sub": lambda: ([1.0, 2.0],),
    "batch_scatter_update": lambda: (one_row(),),
    "eval": lambda: (),
    "experimental_ref": lambda: (),
    "gather_nd": lambda: (INDEX,),
    "get_shape": lambda: (),
    "initialized_value": lambda: (),
    "is_initialized": lambda: (),
    "load": lambda: ([1.0, 2.0],),
    "read_value": lambda: (),
    "sparse_read": lambda: ([0],),
    "to_proto": lambda: (),
    "value": lambda: (),
    **{f"scatter_{kind}": lambda: (one_row(),) for kind in SCATTER},
    **{f"scatter_nd_{kind}": lambda: (INDEX, [1.0]) for kind in ("add", "sub", "update")},
}
RAISING = {"count_up_to": lambda: (3,), "numpy": lambda: ()}  # which want an integer, and eager execution
OTHERS = {"from_proto", "set_shape"}  # a static method; one that 1.15 has only for ref variables
# the public methods of the resource variables of TensorFlow 1.15
METHODS = {*WORKING, *RAISING, *OTHERS}


@pytest.fixture(params=["get_variable", "Variable"])
def variable(request):
    """A variable from each of the two functions that create one."""
    with TowerContext("", is_training=True):
        if request.param == "Variable":
            return tf.Variable([3.0, 4.0])
        return tf.get_variable("v", initializer=[3.0, 4.0])


def test_all_methods_are_listed(variable):
    """Variables have all methods of 1.15, and each has a test here."""
    assert [] == [name for name in METHODS if not callable(getattr(variable, name))]


@pytest.mark.parametrize("name", sorted(WORKING))
def test_it_works(sess, variable, name):
    """The method works, or its result can be evaluated."""
    sess.run(tf.global_variables_initializer())
    with sess.as_default():
        result = getattr(variable, name)(*WORKING[name]())
    if isinstance(result, (tf.Tensor, tf.Operation, tf.Variable)):
        sess.run(result)


@pytest.mark.parametrize("name", sorted(RAISING))
def test_it_raises_a_sentence(variable, name):
    """A method that cannot work here says why."""
    with pytest.raises(Exception, match=r"\w+ \w+ \w+"):
        getattr(variable, name)(*RAISING[name]())


@pytest.mark.parametrize("inside_a_condition", [False, True])
def test_initialized_value(sess, variable, inside_a_condition):
    """`initialized_value` is the initial value until the variable is initialized, and its value afterwards."""
    if inside_a_condition:
        value = tf.cond(tf.constant(True), lambda: 1 * variable.initialized_value(), lambda: tf.zeros([2]))
    else:
        value = variable.initialized_value()
    assert [3, 4] == sess.run(value).tolist()
    sess.run(variable.assign([5.0, 6.0]))
    assert [5, 6] == sess.run(value).tolist()


def test_a_second_variable(sess, variable):
    """A variable may begin with the initial value of another one, whatever the order of initialization."""
    with tf.variable_scope("", use_resource=True):
        copy = tf.get_variable("copy", initializer=variable.initialized_value() * 2)
    sess.run(copy.initializer)
    assert [6, 8] == sess.run(copy).tolist()


def test_a_variable_of_another_scope(sess):
    """In a tower, `tf.get_variable` gives the methods also to a variable that was created outside."""
    with tf.variable_scope("", use_resource=True):
        tf.get_variable("v", initializer=[3.0, 4.0])
    with TowerContext("", is_training=True), tf.variable_scope("", reuse=True):
        value = tf.get_variable("v", [2]).initialized_value()
    assert [3, 4] == sess.run(value).tolist()
