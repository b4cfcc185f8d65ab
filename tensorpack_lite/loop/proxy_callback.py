"""Base class of callbacks that wrap another callback."""

from __future__ import annotations

from typing import Any, Sequence

from ..compat import tfv1 as tf
from ..utils.errors import type_error
from .callback import Callback
from .trainer import LoopTrainer


class ProxyCallback(Callback):
    """
    Base class of callbacks that wrap another callback. It forwards every moment.

    Args:
        cb: the inner callback; `chief_only` is copied from it.

    Runs at: the moments of the inner callback.

    Raises:
        TypeError: `cb` is not a Callback.
    """

    def __init__(self, cb: Callback) -> None:
        if not isinstance(cb, Callback):
            raise type_error(type(self).__name__, "a Callback", cb)
        self.chief_only = cb.chief_only
        self.cb = cb

    @property
    def works_alone(self) -> bool:  # type: ignore[override]
        """The inner callback's `works_alone`."""
        return self.cb.works_alone

    def setup_graph(self, trainer: LoopTrainer) -> None:
        """Set up the inner callback, which opens its own name scope."""
        self.trainer = trainer
        self.graph = tf.get_default_graph()
        with tf.name_scope(None):
            self._setup_graph()

    def _setup_graph(self) -> None:
        self.cb.setup_graph(self.trainer)

    def _forward(self, moment: str) -> None:
        getattr(self.cb, moment)()

    def _trigger_epoch(self) -> None:
        self._forward("trigger_epoch")

    def _before_run(
        self, ctx: tf.train.SessionRunContext
    ) -> tf.train.SessionRunArgs | Sequence[tf.Tensor | tf.Operation | str] | None:
        return self.cb.before_run(ctx)

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        self.cb.after_run(ctx, run_values)

    def background_error(self) -> BaseException | None:
        """Return the inner callback's error."""
        return self.cb.background_error()

    def state_dict(self) -> dict[str, Any] | None:
        """Return the inner callback's state."""
        return self.cb.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the inner callback's state."""
        self.cb.load_state_dict(state)

    @property
    def state_name(self) -> str:
        """The name of this class, and the inner callback's."""
        return f"{type(self).__name__}-{self.cb.state_name}"

    def interrupt(self) -> None:
        """Interrupt the inner callback."""
        self.cb.interrupt()

    def __str__(self) -> str:
        return f"Proxy-{self.cb}"
