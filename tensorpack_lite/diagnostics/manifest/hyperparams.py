"""Callback that records hyper-parameters of the user."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from ...callbacks.monitor.base import MonitorBase
from ...loop.callback import Callback
from ...loop.trainer import LoopTrainer
from ...utils.checks import check_type
from ...utils.hyperparams import Value, flatten
from ...utils.redaction import hide_secrets
from .describe import describe


class RecordHyperParams(Callback):
    """
    Callback that adds hyper-parameters to those that each training records.

    The arguments of the script, arguments of constructors (of the model, the data and the schedules), the constants of the
    optimizer, the length and the seed are recorded without it. All are in the report and in TensorBoard's HParams, and sent to
    Weights & Biases, MLflow and Comet; see docs/several_trainings.md.

    Args:
        values: a dict with strings as keys, or an `argparse.Namespace`. Of a dict inside, each value is recorded with the name
            `outer.inner`. Objects other than numbers, strings, booleans, lists and dicts are skipped.
        **kwargs: more of them.

    Raises:
        TypeError: `values` is something else, or a key is not a string.

    Attributes:
        values: a dict of numbers, strings and booleans.

    Runs at: before_train.

    Example:
        >>> RecordHyperParams(Namespace(width=64), model={"depth": 3}).values
        {'width': 64, 'model.depth': 3}
    """

    def __init__(self, values: Mapping[str, Any] | Namespace | None = None, **kwargs: Any) -> None:
        given = vars(values) if isinstance(values, Namespace) else {} if values is None else values
        who = "RecordHyperParams: values"
        check_type(who, given, Mapping, "a dict or an argparse.Namespace", "Pass vars(...) of another object.")
        for name in given:
            check_type(f"{who}: a key", name, str)
        self.values = flatten({name: describe(value) for name, value in {**given, **kwargs}.items()})

    def _before_train(self) -> None:
        tell_monitors(self.trainer, self.values)


def tell_monitors(trainer: LoopTrainer, values: Mapping[str, Value]) -> None:
    """Pass hyper-parameters to all monitors, without secrets."""
    for monitor in trainer.find_callbacks(MonitorBase):
        monitor.process_hyperparams(hide_secrets(dict(values)))
