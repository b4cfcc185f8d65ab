"""Errors about the arguments of a trainer."""

from __future__ import annotations

from typing import Sequence


def refuse_arguments(who: str, given: Sequence[object]) -> None:
    """
    Raise an error if a trainer without arguments got some.

    Args:
        who: the name of its class.
        given: the arguments, or their names.

    Raises:
        TypeError: there are arguments. The message says how to train with a TrainConfig.
    """
    if given:
        raise TypeError(
            f"{who}: expected no arguments, got {list(given)}. To train with a TrainConfig, call "
            f"launch_train_with_config(config, {who}(...)). A script that calls Trainer(config).train() imports its trainers from "
            "tensorpack_lite.trainv1."
        )
