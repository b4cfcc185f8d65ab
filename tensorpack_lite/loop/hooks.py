"""Callbacks as TensorFlow's session hooks, and hooks as callbacks."""

from __future__ import annotations

from typing import Any

from ..compat import tfv1 as tf
from .callback import Callback

__all__ = ["CallbackToHook", "HookToCallback"]


class CallbackToHook(tf.train.SessionRunHook):
    """
    A callback seen as a `SessionRunHook`: only `before_run` and `after_run` are passed on.

    Args:
        cb: the callback.

    tensorpack: same.
    """

    def __init__(self, cb: Callback) -> None:
        self.callback = cb

    def before_run(self, run_context: Any) -> Any:
        """Ask the callback."""
        return self.callback.before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Hand the values to the callback."""
        self.callback.after_run(run_context, run_values)


class HookToCallback(Callback):
    """
    A `SessionRunHook` seen as a callback, to be used with a trainer.

    Args:
        hook: any `SessionRunHook`.

    Runs at: setup_graph (`begin`), before_train (`after_create_session`, with `coord` None), every run, after_train (`end`).

    Raises:
        TypeError: `hook` is no `SessionRunHook`.

    tensorpack: same; there it fails on TF 2.
    """

    _chief_only = False

    def __init__(self, hook: Any) -> None:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"HookToCallback: takes a tf.train.SessionRunHook, got {type(hook).__name__}.")
        self._hook = hook

    def _setup_graph(self) -> None:
        with tf.name_scope(None):
            self._hook.begin()

    def _before_train(self) -> None:
        self._hook.after_create_session(tf.get_default_session(), None)

    def _before_run(self, ctx: Any) -> Any:
        return self._hook.before_run(ctx)

    def _after_run(self, ctx: Any, run_values: Any) -> None:
        self._hook.after_run(ctx, run_values)

    def _after_train(self) -> None:
        self._hook.end(self.trainer.sess)
