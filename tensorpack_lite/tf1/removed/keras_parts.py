"""Functions of Keras 2.0 to 2.3 that `tf_keras` does not have."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Sequence

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tf1.view import view
from tensorpack_lite.utils.gpu import get_num_gpu

_ARGUMENTS = """W_constraint=kernel_constraint W_regularizer=kernel_regularizer U_regularizer=recurrent_regularizer
    b_constraint=bias_constraint b_regularizer=bias_regularizer beta_init=beta_initializer bias=use_bias
    border_mode=padding dropout_U=recurrent_dropout dropout_W=dropout gamma_init=gamma_initializer
    init=kernel_initializer inner_activation=recurrent_activation inner_init=recurrent_initializer nb_epoch=epochs
    nb_filter=filters output_dim=units p=rate sigma=stddev subsample=strides"""
_CONVERSIONS = [(old, new) for old, _, new in (pair.partition("=") for pair in _ARGUMENTS.split())]


def image_dim_ordering() -> str:
    """Return "tf" if channels are the last axis of images, and "th" otherwise."""
    return "tf" if view().keras.backend.image_data_format() == "channels_last" else "th"


def set_image_dim_ordering(dim_ordering: str) -> None:
    """Set whether channels are the last axis of images ("tf") or the first one after the batch ("th")."""
    view().keras.backend.set_image_data_format({"tf": "channels_last", "th": "channels_first"}[dim_ordering])


def multi_gpu_model(
    model: Any, gpus: int | Sequence[int] | None = None, cpu_merge: bool = True, cpu_relocation: bool = False
) -> Any:
    """
    Return a model that divides each batch between GPUs, which all use the weights of a model.

    Args:
        model: the model of one GPU.
        gpus: how many GPUs, or their numbers; at least two. None means all GPUs.
        cpu_merge: concatenate the outputs on the CPU rather than on the first GPU.
        cpu_relocation: has no effect: the weights stay where they are.

    Raises:
        ValueError: there are fewer than two GPUs, or not all of `gpus` exist.
    """
    number_of_gpus = get_num_gpu() if gpus is None else gpus
    numbers = range(number_of_gpus) if isinstance(number_of_gpus, int) else number_of_gpus
    if len(numbers) < 2 or max(numbers) >= get_num_gpu():
        raise ValueError(
            f"multi_gpu_model: expected at least two of the {get_num_gpu()} GPUs of this machine, got {gpus}. "
            "Train the model itself, or start the script with: tensorpack-lite run --pretend-gpu=2"
        )
    layers = view().keras.layers

    def part(x: Any, index: int) -> Any:
        size = tf.shape(x)[0]
        return x[size * index // len(numbers) : size * (index + 1) // len(numbers)]

    outputs = []
    for i, number in enumerate(numbers):
        with tf.device(f"/gpu:{number}"), tf.name_scope(f"replica_{number}"):
            inputs = [layers.Lambda(part, arguments={"index": i})(x) for x in model.inputs]
            found = model(inputs if len(inputs) > 1 else inputs[0])
            outputs.append(found if isinstance(found, (list, tuple)) else [found])
    with tf.device("/cpu:0" if cpu_merge else f"/gpu:{numbers[0]}"):
        merged = [
            layers.Concatenate(axis=0, name=name)(list(parts)) for name, parts in zip(model.output_names, zip(*outputs))
        ]
    return view().keras.models.Model(model.inputs, merged)


# keras.legacy.interfaces -------------------------------------------------------------------------------------------------
def generate_legacy_interface(
    allowed_positional_args: Sequence[str] | None = None,
    conversions: Sequence[tuple[str, str]] = (),
    preprocessor: Callable[..., Any] | None = None,
    value_conversions: Any = None,
) -> Callable[[Any], Any]:
    """
    Return a decorator for functions that accept arguments of Keras 1.

    Args:
        allowed_positional_args: is not checked.
        conversions: pairs of an old argument and its name today.
        preprocessor: a function from the arguments to the changed ones and a third value.
        value_conversions: `{argument: {old value: value today}}`.
    """

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        known = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if preprocessor is not None:
                args, kwargs, _ = preprocessor(args, kwargs)
            for old, new in conversions:
                if old in kwargs and old not in known and new in known:
                    kwargs[new] = kwargs.pop(old)
            for name, values in (value_conversions or {}).items():
                if name in kwargs:
                    kwargs[name] = values.get(kwargs[name], kwargs[name])
            return function(*args, **kwargs)

        return call

    return decorator


def __getattr__(name: str) -> Callable[[Any], Any]:
    """Return a decorator such as `legacy_dense_support`."""
    if not name.startswith("legacy_"):
        raise AttributeError(f"module 'keras.legacy.interfaces' has no attribute {name!r}")
    return generate_legacy_interface(conversions=_CONVERSIONS)
