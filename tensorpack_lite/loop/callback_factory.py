"""Callback made of functions."""

from __future__ import annotations

from typing import Callable

from .callback import Callback


class CallbackFactory(Callback):
    """
    A callback made of functions.

    Args:
        setup_graph, before_train, trigger, after_train: functions that take this callback; None does nothing.

    Runs at: the moments of the functions given.

    Example:
        >>> CallbackFactory(trigger=lambda self: print(self.trainer.monitors.get_latest("cost")))
    """

    def __init__(
        self,
        setup_graph: Callable[[CallbackFactory], object] | None = None,
        before_train: Callable[[CallbackFactory], object] | None = None,
        trigger: Callable[[CallbackFactory], object] | None = None,
        after_train: Callable[[CallbackFactory], object] | None = None,
    ) -> None:
        self._functions = (setup_graph, before_train, trigger, after_train)

    @property
    def is_triggered(self) -> bool:
        """Whether it has a function that is called at each trigger, and may report a statistic."""
        return self._functions[2] is not None

    def _call(self, index: int) -> None:
        function = self._functions[index]
        if function is not None:
            function(self)

    def _setup_graph(self) -> None:
        self._call(0)

    def _before_train(self) -> None:
        self._call(1)

    def _trigger(self) -> None:
        self._call(2)

    def _after_train(self) -> None:
        self._call(3)
