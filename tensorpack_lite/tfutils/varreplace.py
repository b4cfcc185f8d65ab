"""Change what `tf.get_variable` returns inside a block of code."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, ContextManager, Iterator

from ..compat import ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..utils import logger

__all__ = ["custom_getter_scope", "freeze_variables", "override_to_local_variable", "remap_variables"]


@contextmanager
def custom_getter_scope(custom_getter: Callable[..., Any]) -> Iterator[None]:
    """
    Let `custom_getter` stand between `tf.get_variable` and its callers inside the context.

    The variable scope and name scope stay what they are. Getters of outer scopes go on working: this one is asked
    first, and its `getter` is the next outer one.

    Args:
        custom_getter: `f(getter, name, *args, **kwargs)` -> variable or tensor, as `tf.variable_scope` takes it.

    tensorpack: same.
    """
    ensure_graph_mode()
    with tf.variable_scope(tf.get_variable_scope(), custom_getter=custom_getter, auxiliary_name_scope=False):
        yield


def remap_variables(fn: Callable[[Any], Any]) -> ContextManager[None]:
    """
    Pass each result of `tf.get_variable` through a function inside the context.

    Args:
        fn: variable -> tensor or variable.

    Example:
        >>> with remap_variables(lambda var: quantize(var)):
        ...     x = FullyConnected("fc", x, 10)             # multiplies with quantize(fc/W)

    tensorpack: same.
    """

    def custom_getter(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return fn(getter(*args, **kwargs))

    return custom_getter_scope(custom_getter)


def freeze_variables(stop_gradient: bool = True, skip_collection: bool = False) -> ContextManager[None]:
    """
    Keep variables that are made or reused inside the context from being trained.

    Variables that are asked for with `trainable=False` are not touched.

    Args:
        stop_gradient: `tf.get_variable` returns `tf.stop_gradient(variable)`, a tensor named `freezed_<name>`: no gradient
            flows into it from here, though other uses of the variable may train it.
        skip_collection: the variable is kept out of TRAINABLE_VARIABLES and put into MODEL_VARIABLES, so that it is still
            saved with the model, but gets no gradient, no weight decay and no row in tables.

    Example:
        >>> with freeze_variables():
        ...     features = backbone(image)

    tensorpack: same.
    """

    def custom_getter(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        wants_training = kwargs.get("trainable", True) is not False
        name = args[0] if args else kwargs["name"]
        if skip_collection:
            kwargs["trainable"] = False
        var = getter(*args, **kwargs)
        if not wants_training:
            return var
        if skip_collection:
            _add_to_model_variables(var, name)
        return tf.stop_gradient(var, name="freezed_" + name) if stop_gradient else var

    return custom_getter_scope(custom_getter)


@contextmanager
def override_to_local_variable(enable: bool = True) -> Iterator[None]:
    """
    Put variables made inside the context into LOCAL_VARIABLES instead of GLOBAL_VARIABLES.

    Local variables are not saved in checkpoints. Other collections (TRAINABLE_VARIABLES, MODEL_VARIABLES ...) get them
    all the same. Towers that hold a copy of the first tower's variables are built under this.

    Args:
        enable: False changes nothing.

    Note: it acts on `tf.get_variable`, and so on the slots of optimizers; not on `tf.Variable(...)`.

    tensorpack: same (there in graph_builder.utils); there it fails on a call without `collections`.
    """
    if not enable:
        yield
        return
    with custom_getter_scope(_make_local):
        yield


def _make_local(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    wanted = kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES]
    others = [
        key for key in wanted if key not in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)
    ]
    kwargs["collections"] = [tf.GraphKeys.LOCAL_VARIABLES, *others]
    return getter(*args, **kwargs)


def _add_to_model_variables(var: Any, name: str) -> None:
    if not isinstance(var, tensorflow.Variable):
        logger.warning(
            f"freeze_variables: '{name}' is a {type(var).__name__}, not a variable, because of another custom getter. It is not "
            "added to MODEL_VARIABLES."
        )
        return
    model_variables = tf.get_collection_ref(tf.GraphKeys.MODEL_VARIABLES)
    if not any(var is other for other in model_variables):
        model_variables.append(var)
