"""The description of a model's input before `tf.TensorSpec`."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from ..compat import TensorSpec, ensure_graph_mode
from ..compat import tfv1 as tf
from ..tfutils.placeholder import build_or_reuse_placeholder


class InputDesc(NamedTuple):
    """
    One input of a model. New code uses `tf.TensorSpec(shape, type, name)`.

    Args:
        type: a `tf.DType`.
        shape: a list or tuple with None for unknown dimensions.
        name: the name of the placeholder.

    Example:
        >>> InputDesc(tf.float32, (None, 28, 28), "image")
    """

    type: tf.DType
    shape: Sequence[int | None]
    name: str

    def build_placeholder(self) -> tf.Tensor:
        """Create a placeholder at the root of the default graph. TensorFlow makes its name unique."""
        ensure_graph_mode()
        with tf.name_scope(None):
            return tf.placeholder(self.type, shape=self.shape, name=self.name)

    def build_placeholder_reuse(self) -> tf.Tensor:
        """
        Return the placeholder of this name in the default graph. Create it if it does not exist.

        Raises:
            ValueError: the graph has another operation of this name.
        """
        return build_or_reuse_placeholder(self.to_spec())

    def to_spec(self) -> tf.TensorSpec:
        """Return the `tf.TensorSpec` of this input."""
        return TensorSpec(self.shape, self.type, self.name)

    @staticmethod
    def from_placeholder(placeholder: tf.Tensor) -> InputDesc:
        """
        Describe an existing placeholder.

        Args:
            placeholder: a placeholder; its shape may be unknown, but not its rank.
        """
        return InputDesc(placeholder.dtype, tuple(placeholder.shape.as_list()), placeholder.op.name)


class InputSpec(TensorSpec):
    """
    A `tf.TensorSpec` that also has the attributes and methods of an InputDesc, which `get_inputs_desc` returned.

    Attributes:
        type: the dtype.
    """

    @property
    def type(self) -> tf.DType:
        """The `tf.DType`."""
        return self.dtype

    def build_placeholder(self) -> tf.Tensor:
        """Create a placeholder, like `InputDesc.build_placeholder`."""
        return self.to_desc().build_placeholder()

    def build_placeholder_reuse(self) -> tf.Tensor:
        """Return the placeholder of this name, like `InputDesc.build_placeholder_reuse`."""
        return self.to_desc().build_placeholder_reuse()

    def to_desc(self) -> InputDesc:
        """Return the InputDesc of this input."""
        return InputDesc(self.dtype, tuple(self.shape.as_list()), self.name)
