"""What a hyper-parameter is: something with a name that can be read and set while training runs."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Sequence

import numpy as np

from ...compat import tfv1 as tf
from ...tfutils.common import get_op_tensor_name

__all__ = ["GraphVarParam", "HyperParam", "ObjAttrParam"]


class HyperParam(metaclass=ABCMeta):
    """
    Base class of hyper-parameters.

    tensorpack: same.
    """

    def setup_graph(self) -> None:  # noqa: B027 (not every parameter is in the graph)
        """Find what is needed in the graph; called while the graph is being built."""

    @abstractmethod
    def set_value(self, v: Any) -> None:
        """Give the parameter a new value."""

    @abstractmethod
    def get_value(self) -> Any:
        """Read the parameter's value."""

    @property
    def readable_name(self) -> str:
        """The name to show, and to find in a file written by a human."""
        return type(self).__name__


class GraphVarParam(HyperParam):
    """
    A variable of the graph, such as a learning rate.

    Args:
        name: the variable's name, e.g. "learning_rate"; global and local variables are searched.
        shape: its shape.

    Raises:
        ValueError: in `setup_graph`, there is no such variable, or it has another shape; in `set_value`, a number with
            a fraction for a variable of integers.

    Attributes:
        name: as given.
        var: the variable, from `setup_graph` on.

    Note: only a variable can be set. A learning rate that is computed (`tf.train.exponential_decay`) is a tensor.

    tensorpack: same; there the shape is not looked at.
    """

    def __init__(self, name: str, shape: Sequence[int] = ()) -> None:
        self.name = name
        self.shape = tuple(shape)
        self._op_name, self._variable_name = get_op_tensor_name(name)

    def setup_graph(self) -> None:
        """Find the variable by its name."""
        variables = [*tf.global_variables(), *tf.local_variables()]
        for variable in variables:
            if variable.name == self._variable_name:
                self.var = variable
                break
        else:
            raise ValueError(
                f"GraphVarParam: '{self.name}' is not a variable of this graph. Make it one, e.g. "
                f"tf.get_variable('{self._op_name}', initializer=0.1, trainable=False); a tensor cannot be set."
            )
        if not self.var.shape.is_compatible_with(self.shape):
            raise ValueError(
                f"GraphVarParam: variable '{self.name}' has shape {self.var.shape}, wanted {self.shape}. "
                "Give its shape: GraphVarParam(name, shape)."
            )

    def set_value(self, v: Any) -> None:
        """Assign to the variable, in the default session."""
        dtype = self.var.dtype.base_dtype
        array = np.asarray(v)
        if dtype.is_integer and array.dtype.kind == "f":
            raise ValueError(
                f"GraphVarParam: cannot set variable '{self.name}' of type {dtype.name} to {v}: it holds integers."
            )
        # The variable's own initializer, fed with the value: nothing is added to a graph that is final.
        initializer = self.var.initializer
        _default_session().run(
            initializer, feed_dict={initializer.inputs[1]: array.astype(dtype.as_numpy_dtype)}
        )

    def get_value(self) -> Any:
        """Read the variable, in the default session."""
        return _default_session().run(self.var)

    @property
    def readable_name(self) -> str:
        """The variable's name without `:0`."""
        return self._op_name


class ObjAttrParam(HyperParam):
    """
    An attribute of a Python object.

    Args:
        obj: the object.
        attrname: the attribute's name.
        readable_name: the name to show; None means `attrname`.

    tensorpack: same.
    """

    def __init__(self, obj: Any, attrname: str, readable_name: str | None = None) -> None:
        self.obj = obj
        self.attrname = attrname
        self._readable_name = readable_name or attrname

    def set_value(self, v: Any) -> None:
        """Set the attribute."""
        setattr(self.obj, self.attrname, v)

    def get_value(self) -> Any:
        """Read the attribute."""
        return getattr(self.obj, self.attrname)

    @property
    def readable_name(self) -> str:
        """The given name, or the attribute's."""
        return self._readable_name


def _default_session() -> Any:
    session = tf.get_default_session()
    if session is None:
        raise RuntimeError(
            "GraphVarParam: there is no default session. Call it under `with sess.as_default():`."
        )
    return session
