"""A chain of layers, written as one."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from ..compat import tensorflow
from ..compat import tfv1 as tf
from ..utils import logger
from .registry import get_registered_layer

__all__ = ["LinearWrap"]


class LinearWrap:
    """
    Hold a tensor and apply layers to it one after the other; each call gives a new LinearWrap.

    `.<Layer>(name, ...)` applies a registered layer, `.tf.<path>(...)` a function of TensorFlow (first looked for in
    `tensorflow`, then in `tf.compat.v1`), `.apply(f, ...)` anything else. `()` gives the tensor.

    Args:
        tensor: where to begin.

    Raises:
        AttributeError: no layer, or no function of TensorFlow, has this name.
        KeyError: two layers have this name.

    Example:
        >>> logits = (LinearWrap(image)
        ...           .Conv2D("conv0", 32, 3, activation=tf.nn.relu)
        ...           .MaxPooling("pool0", 2)
        ...           .tf.multiply(0.5)
        ...           .FullyConnected("fc", 10)())

    tensorpack: same; there an unknown name is an AssertionError, so that `hasattr` and `copy` fail.
    """

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __getattr__(self, layer_name: str) -> Callable[..., LinearWrap]:
        layer = None if layer_name.startswith("_") else get_registered_layer(layer_name)
        if layer is None:
            raise AttributeError(
                f"LinearWrap: there is no layer '{layer_name}'. Register a function with layer_register, or use .apply(f)."
            )

        def call(*args: Any, **kwargs: Any) -> LinearWrap:
            if args and isinstance(args[0], str):
                return LinearWrap(layer(args[0], self._tensor, *args[1:], **kwargs))
            if layer.use_scope is True:
                raise TypeError(
                    f"LinearWrap: .{layer_name} takes a name first: .{layer_name}('{layer_name.lower()}0', ...)."
                )
            return LinearWrap(layer(self._tensor, *args, **kwargs))

        return call

    @property
    def tf(self) -> _FunctionFinder:
        """TensorFlow, whose functions are called with the tensor as first argument: `.tf.nn.relu(name="relu")`."""
        return _FunctionFinder(self, [tensorflow, tf], "tf")

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> LinearWrap:
        """
        Apply any function.

        Returns:
            `LinearWrap(func(tensor, *args, **kwargs))`.
        """
        return LinearWrap(func(self._tensor, *args, **kwargs))

    def apply2(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> LinearWrap:
        """
        Apply a function that takes the tensor second.

        Returns:
            `LinearWrap(func(args[0], tensor, *args[1:], **kwargs))`.
        """
        return LinearWrap(func(args[0], self._tensor, *args[1:], **kwargs))

    def __call__(self) -> Any:
        """Get the tensor."""
        return self._tensor

    def tensor(self) -> Any:
        """Get the tensor, as `()` does."""
        return self._tensor

    def print_tensor(self) -> LinearWrap:
        """Log the tensor's name, shape and dtype, and go on."""
        logger.info(str(self._tensor))
        return self


class _FunctionFinder:
    """A path through modules of TensorFlow, followed in several of them at once."""

    def __init__(self, wrap: LinearWrap, modules: list[ModuleType], path: str) -> None:
        self._wrap = wrap
        self._modules = modules
        self._path = path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}"
        found = [getattr(module, name) for module in self._modules if hasattr(module, name)]
        if not found:
            raise AttributeError(f"LinearWrap: there is no '{path}' in TensorFlow {tensorflow.__version__}.")
        if not isinstance(found[0], ModuleType):
            return lambda *args, **kwargs: self._wrap.apply(found[0], *args, **kwargs)
        return _FunctionFinder(self._wrap, [thing for thing in found if isinstance(thing, ModuleType)], path)
