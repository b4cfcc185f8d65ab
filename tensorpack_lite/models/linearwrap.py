"""Chains of layers as one expression."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..utils import logger
from .registry import get_registered_layer


class LinearWrap:
    """
    A tensor with layers as methods; each call returns a new LinearWrap.

    `.<Layer>(name, ...)` applies a registered layer, `.tf.<path>(...)` a function of TensorFlow (from
    `tensorflow`, or else from `tf.compat.v1`), and `.apply(f, ...)` any other function. `()` returns the
    tensor.

    Args:
        tensor: the first tensor.

    Raises:
        AttributeError: the name is neither a layer nor, after `.tf`, in TensorFlow.
        KeyError: two layers have this name.

    Example:
        >>> logits = (LinearWrap(image)
        ...           .Conv2D("conv0", 32, 3, activation=tf.nn.relu)
        ...           .MaxPooling("pool0", 2)
        ...           .tf.multiply(0.5)
        ...           .FullyConnected("fc", 10)())
    """

    def __init__(self, tensor: tensorflow.Tensor) -> None:
        self._tensor = tensor

    def __getattr__(self, layer_name: str) -> Callable[..., LinearWrap]:
        layer = None if layer_name.startswith("_") else get_registered_layer(layer_name)
        if layer is None:
            raise AttributeError(
                f"LinearWrap: '{layer_name}' is not a layer. Register a function with layer_register, or use .apply(f)."
            )

        def call(*args: object, **kwargs: object) -> LinearWrap:
            if args and isinstance(args[0], str):
                return LinearWrap(layer(args[0], self._tensor, *args[1:], **kwargs))
            if layer.use_scope is True:  # type: ignore[attr-defined]
                raise TypeError(
                    f"LinearWrap: .{layer_name} needs a name. Write .{layer_name}('{layer_name.lower()}0', ...)."
                )
            return LinearWrap(layer(self._tensor, *args, **kwargs))

        return call

    @property
    def tf(self) -> _FunctionFinder:
        """TensorFlow's functions, called with the tensor as first argument: `.tf.nn.relu(name="relu")`."""
        return _FunctionFinder(self, [tensorflow, tf], "tf")

    def apply(self, func: Callable[..., tensorflow.Tensor], *args: object, **kwargs: object) -> LinearWrap:
        """
        Apply a function.

        Returns:
            `LinearWrap(func(tensor, *args, **kwargs))`.
        """
        return LinearWrap(func(self._tensor, *args, **kwargs))

    def apply2(self, func: Callable[..., tensorflow.Tensor], *args: object, **kwargs: object) -> LinearWrap:
        """
        Apply a function that takes the tensor as its second argument.

        Returns:
            `LinearWrap(func(args[0], tensor, *args[1:], **kwargs))`.
        """
        return LinearWrap(func(args[0], self._tensor, *args[1:], **kwargs))

    def __call__(self) -> tensorflow.Tensor:
        """Return the tensor."""
        return self._tensor

    def tensor(self) -> tensorflow.Tensor:
        """Return the tensor, like `()`."""
        return self._tensor

    def print_tensor(self) -> LinearWrap:
        """Log the name, shape and dtype of the tensor, and return this LinearWrap."""
        logger.info(str(self._tensor))
        return self


class _FunctionFinder:
    """A path such as `tf.nn`, looked up in several modules at once."""

    def __init__(self, wrap: LinearWrap, modules: list[ModuleType], path: str) -> None:
        self._wrap = wrap
        self._modules = modules
        self._path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}"
        found = [getattr(module, name) for module in self._modules if hasattr(module, name)]
        if not found:
            raise AttributeError(f"LinearWrap: TensorFlow {tensorflow.__version__} has no '{path}'.")
        if not isinstance(found[0], ModuleType):
            return lambda *args, **kwargs: self._wrap.apply(found[0], *args, **kwargs)
        modules = [module for module in found if isinstance(module, ModuleType)]
        return _FunctionFinder(self._wrap, modules, path)
