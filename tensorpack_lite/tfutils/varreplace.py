"""Contexts that change the result of `tf.get_variable`."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any, Callable, ContextManager, Iterator

from ..compat import ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["custom_getter_scope", "freeze_variables", "override_to_local_variable", "remap_variables"]


@contextmanager
def custom_getter_scope(custom_getter: Callable[..., tf.Tensor]) -> Iterator[None]:
    """
    Install a custom getter for `tf.get_variable` inside the context.

    The variable scope and name scope do not change. Getters of outer scopes still work: this getter is called
    first, and its argument `getter` is the next outer one.

    Args:
        custom_getter: `f(getter, name, *args, **kwargs)` -> variable or tensor, as for `tf.variable_scope`.
    """
    ensure_graph_mode()
    with tf.variable_scope(tf.get_variable_scope(), custom_getter=custom_getter, auxiliary_name_scope=False):
        yield


def remap_variables(fn: Callable[[tf.Variable], tf.Tensor]) -> ContextManager[None]:
    """
    Pass each result of `tf.get_variable` through a function inside the context.

    Args:
        fn: variable -> tensor or variable.

    Example:
        >>> with remap_variables(lambda var: quantize(var)):
        ...     x = FullyConnected("fc", x, 10)             # multiplies by quantize(fc/W)
    """

    def custom_getter(getter: Callable[..., tf.Tensor], *args: object, **kwargs: Any) -> tf.Tensor:
        return fn(getter(*args, **kwargs))

    return custom_getter_scope(custom_getter)


def freeze_variables(stop_gradient: bool = True, skip_collection: bool = False) -> ContextManager[None]:
    """
    Exclude variables that are created or reused inside the context from training.

    Variables requested with `trainable=False` are not changed.

    Args:
        stop_gradient: return `tf.stop_gradient(variable)` from `tf.get_variable`, a tensor named `freezed_<name>`. No
            gradient flows through this tensor, but other uses of the variable may train it.
        skip_collection: put the variable into MODEL_VARIABLES instead of TRAINABLE_VARIABLES. It is still
            saved with the model, but has no gradient, no weight decay and no row in tables.

    Example:
        >>> with freeze_variables():
        ...     features = backbone(image)
    """

    def custom_getter(getter: Callable[..., tf.Tensor], *args: Any, **kwargs: Any) -> tf.Tensor:
        is_trainable = kwargs.get("trainable", True) is not False
        name = args[0] if args else kwargs["name"]
        if skip_collection:
            kwargs["trainable"] = False
        var = getter(*args, **kwargs)
        if not is_trainable:
            return var
        if skip_collection:
            _add_to_model_variables(var, name)
        return tf.stop_gradient(var, name="freezed_" + name) if stop_gradient else var

    return custom_getter_scope(custom_getter)


def override_to_local_variable(enable: bool = True) -> ContextManager[None]:
    """
    Put variables that are created inside the context into LOCAL_VARIABLES instead of GLOBAL_VARIABLES.

    Local variables are not saved in checkpoints. Other collections (TRAINABLE_VARIABLES, MODEL_VARIABLES ...) do not
    change. Towers with a copy of the first tower's variables are built in this context.

    Args:
        enable: False changes nothing.

    Note: it applies to `tf.get_variable`, including the slots of optimizers, but not to `tf.Variable(...)`.
    """
    return custom_getter_scope(_make_local) if enable else nullcontext()


def _make_local(getter: Callable[..., tf.Tensor], *args: object, **kwargs: Any) -> tf.Tensor:
    keys = kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES]
    collections = [key for key in keys if key not in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)]
    kwargs["collections"] = [tf.GraphKeys.LOCAL_VARIABLES, *collections]
    return getter(*args, **kwargs)


def _add_to_model_variables(var: tf.Variable, name: str) -> None:
    if not isinstance(var, tensorflow.Variable):
        logger.warning(
            f"freeze_variables: '{name}' is not added to MODEL_VARIABLES, because another custom getter returned a "
            f"{type(var).__name__} instead of a variable."
        )
        return
    model_variables = tf.get_collection_ref(tf.GraphKeys.MODEL_VARIABLES)
    if not any(var is variable for variable in model_variables):
        model_variables.append(var)
