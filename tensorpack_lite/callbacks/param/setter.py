"""Callbacks that set a hyper-parameter: the base class, and the ones that ask a function or a human."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Callable

import numpy as np

from ...loop.callback import Callback
from ...utils import logger
from .hyperparam import GraphVarParam, HyperParam

__all__ = ["HumanHyperParamSetter", "HyperParamSetter", "HyperParamSetterWithFunc"]


class HyperParamSetter(Callback):
    """
    Base class of callbacks that set a hyper-parameter: override `_get_value_to_set`.

    Args:
        param: a `HyperParam`, or the name of a variable.

    Raises:
        TypeError: `param` is neither.

    Attributes:
        param: the `HyperParam`.

    Runs at: before_train, trigger. In every process of a distributed training.

    tensorpack: same.
    """

    _chief_only = False
    _enable_before_train = True

    def __init__(self, param: HyperParam | str) -> None:
        if isinstance(param, str):
            param = GraphVarParam(param)
        if not isinstance(param, HyperParam):
            raise TypeError(
                f"{type(self).__name__}: param is {type(param).__name__}, wanted a HyperParam or a variable's name."
            )
        self.param = param
        self._last_value: Any = None
        self._last_logged_epoch = -1

    def get_value_to_set(self) -> Any:
        """
        Give the value to set now; a change is logged, at most once an epoch.

        Returns:
            The value, or None to leave the parameter alone.
        """
        value = self._get_value_to_set()
        if value is None or np.array_equal(value, self._last_value):
            return value
        if self.epoch_num != self._last_logged_epoch:
            self._last_logged_epoch = self.epoch_num
            before = "" if self._last_value is None else f"from {self._last_value} "
            logger.info(
                "%s: at global_step=%d, %s changes %sto %s.",
                self,
                self.global_step,
                self.param.readable_name,
                before,
                value,
            )
        self._last_value = value
        return value

    def get_current_value(self) -> Any:
        """Read the parameter as it is now."""
        return self.param.get_value()

    @abstractmethod
    def _get_value_to_set(self) -> Any:
        """Give the value to set now, or None."""

    def _setup_graph(self) -> None:
        self.param.setup_graph()

    def _before_train(self) -> None:
        if self._enable_before_train:
            self._set_param()

    def _trigger(self) -> None:
        self._set_param()

    def _set_param(self) -> None:
        value = self.get_value_to_set()
        if value is not None:
            self.param.set_value(value)


class HyperParamSetterWithFunc(HyperParamSetter):
    """
    Set a hyper-parameter to what a function says.

    Args:
        param: a `HyperParam`, or the name of a variable.
        func: `func(epoch_num, current_value) -> new value`, or None to leave it; called after each epoch with that
            epoch's number, and before training with the number before the first.

    Runs at: before_train, trigger.

    Example:
        >>> HyperParamSetterWithFunc("learning_rate", lambda epoch, lr: lr * 0.9 if epoch else None)

    tensorpack: same.
    """

    def __init__(self, param: HyperParam | str, func: Callable[[int, Any], Any]) -> None:
        super().__init__(param)
        self._func = func

    def _get_value_to_set(self) -> Any:
        return self._func(self.epoch_num, self.get_current_value())


class HumanHyperParamSetter(HyperParamSetter):
    """
    Set a hyper-parameter to what somebody writes into a file while training runs.

    The file stands in the logger's directory; each line is `name:value`. While there is no file, nothing happens; when a
    line cannot be read, or the name is not there, there is a warning.

    Args:
        param: a `HyperParam`, or the name of a variable.
        file_name: the file.

    Raises:
        RuntimeError: in `setup_graph`, there is no logger directory.

    Runs at: before_train, trigger.

    Example:
        >>> HumanHyperParamSetter("learning_rate")      # then: echo learning_rate:0.001 > train_log/x/hyper.txt

    tensorpack: same; there a missing logger directory is a TypeError of the constructor.
    """

    def __init__(self, param: HyperParam | str, file_name: str = "hyper.txt") -> None:
        super().__init__(param)
        self._file_name = file_name
        self._directory = logger.get_logger_dir()

    def _setup_graph(self) -> None:
        super()._setup_graph()
        self._directory = self._directory or logger.get_logger_dir()
        if self._directory is None:
            raise RuntimeError(
                f"HumanHyperParamSetter: there is no logger directory to look for '{self._file_name}' in. "
                "Call logger.set_logger_dir(...) first."
            )

    def _get_value_to_set(self) -> float | None:
        path = os.path.join(self._directory or "", self._file_name)
        if not os.path.isfile(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                pairs = [line.strip().split(":") for line in file if line.strip()]
            return float({name.strip(): value for name, value in pairs}[self.param.readable_name])
        except (OSError, ValueError, KeyError) as error:
            logger.warning(
                "HumanHyperParamSetter: no value of '%s' in '%s' (%r); a line is name:value.",
                self.param.readable_name,
                path,
                error,
            )
            return None
