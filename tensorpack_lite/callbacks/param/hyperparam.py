"""Hyper-parameters: named values that can be read and set during training."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...tfutils.common import get_op_tensor_name
from ...tfutils.tower.copies import update_copies


class HyperParam(metaclass=ABCMeta):
    """
    Base class of hyper-parameters.
    """

    def setup_graph(self) -> None:
        """Look up variables or tensors; called while the graph is being built."""

    @abstractmethod
    def set_value(self, v: object) -> None:
        """Set the parameter's value."""

    @abstractmethod
    def get_value(self) -> Any:
        """Return the parameter's value."""

    @property
    def is_variable_saved(self) -> bool:
        """Whether the value is a variable that checkpoints hold. If not, the setter keeps the value in its state."""
        return False

    @property
    def readable_name(self) -> str:
        """The name in logs, monitors, and the file of `HumanHyperParamSetter`."""
        return type(self).__name__


class GraphVarParam(HyperParam):
    """
    A variable of the graph, such as a learning rate.

    Args:
        name: name of a global or local variable, e.g. "learning_rate".
        shape: its shape.

    Raises:
        ValueError: in `setup_graph`: the variable does not exist or has another shape; in `set_value`: the
            value is a float and the variable holds integers.

    Attributes:
        name: as given.
        var: the variable, available from `setup_graph` on.

    Note: only a variable can be set, not a computed learning rate, e.g. from `tf.train.exponential_decay`.
    """

    def __init__(self, name: str, shape: Sequence[int] = ()) -> None:
        self.name = name
        self.shape = tuple(shape)
        self._op_name, self._variable_name = get_op_tensor_name(name)

    def setup_graph(self) -> None:
        """Find the variable by its name."""
        variables = [*tf.global_variables(), *tf.local_variables()]
        found = [variable for variable in variables if variable.name == self._variable_name]
        if not found:
            raise ValueError(
                f"GraphVarParam: '{self.name}' is not a variable of this graph. Create it, e.g. in optimizer(): "
                f"rate = tf.get_variable('{self._op_name}', initializer=0.01, trainable=False), and give it to the optimizer: "
                "tf.train.AdamOptimizer(rate). A tensor cannot be set."
            )
        self.var = found[0]
        if not self.var.shape.is_compatible_with(self.shape):
            raise ValueError(
                f"GraphVarParam: wrong shape of variable '{self.name}' (expected {self.shape}, got {self.var.shape}). "
                "Pass its shape: GraphVarParam(name, shape)."
            )

    def set_value(self, v: object) -> None:
        """Assign the variable, and its copies in other towers, in the default session."""
        dtype = self.var.dtype.base_dtype
        array = np.asarray(v)
        if dtype.is_integer and array.dtype.kind == "f":
            raise ValueError(f"GraphVarParam: wrong type for variable '{self.name}' (expected {dtype.name}, got {v}).")
        # Feeding the initializer adds nothing to the finalized graph.
        initializer, session = self.var.initializer, _default_session()
        session.run(initializer, feed_dict={initializer.inputs[1]: array.astype(dtype.as_numpy_dtype)})
        update_copies(session, [self.var.op.name])

    def get_value(self) -> Any:
        """Return the variable's value in the default session."""
        return _default_session().run(self.var)

    @property
    def is_variable_saved(self) -> bool:
        """Whether the variable is in `GLOBAL_VARIABLES`."""
        return any(self.var is variable for variable in tf.global_variables())

    @property
    def readable_name(self) -> str:
        """The variable's name without `:0`."""
        return self._op_name


class ObjAttrParam(HyperParam):
    """
    An attribute of a Python object.

    Args:
        obj: the object.
        attrname: name of the attribute.
        readable_name: the name in logs and monitors; None means `attrname`.
    """

    def __init__(self, obj: object, attrname: str, readable_name: str | None = None) -> None:
        self.obj = obj
        self.attrname = attrname
        self._readable_name = readable_name or attrname

    def set_value(self, v: object) -> None:
        """Set the attribute."""
        setattr(self.obj, self.attrname, v)

    def get_value(self) -> Any:
        """Return the attribute."""
        return getattr(self.obj, self.attrname)

    @property
    def readable_name(self) -> str:
        """The given name, or the attribute's name."""
        return self._readable_name


def _default_session() -> tf.Session:
    session = tf.get_default_session()
    if session is None:
        raise RuntimeError("GraphVarParam: there is no default session. Use it inside `with sess.as_default():`.")
    return session
