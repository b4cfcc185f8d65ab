"""Errors about the arguments of a trainer, above all about a TrainConfig, which no method of a trainer takes."""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence, TypeVar

from ..utils.errors import type_error

Func = TypeVar("Func", bound=Callable[..., Any])


def refuse_arguments(who: str, arguments: Sequence[object]) -> None:
    """
    Raise an error if a trainer without arguments got some.

    Args:
        who: the name of its class.
        arguments: the arguments, or their names.

    Raises:
        TypeError: there are arguments. The message explains how to train with a TrainConfig.
    """
    if arguments:
        raise TypeError(
            f"{who}: expected no arguments, got {list(arguments)}. {_how_to_train(f'{who}(...)')} A script that calls "
            "Trainer(config).train() imports its trainers from tensorpack_lite.trainv1."
        )


def refuse_config(train: Func) -> Func:
    """
    Decorator for `Trainer.train`: a call with a TrainConfig raises an error that explains how to train with one.

    Raises:
        TypeError: in a call with one argument, which is not the list of callbacks.
    """

    @functools.wraps(train)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and not isinstance(args[0], (list, tuple)):
            raise type_error(f"{type(self).__name__}.train", "a list of callbacks", args[0], _how_to_train("trainer"))
        return train(self, *args, **kwargs)

    return checked  # type: ignore[return-value]


def explain_fit(who: str) -> TypeError:
    """Return the error for a call of `fit`, which trainers do not have."""
    return TypeError(f"{who}: trainers have no method fit. {_how_to_train('trainer')}")


def _how_to_train(trainer: str) -> str:
    return f"To train with a TrainConfig, call launch_train_with_config(config, {trainer})."
