"""Adapters between callbacks and TensorFlow's session hooks."""

from __future__ import annotations

from ..compat import tfv1 as tf
from ..utils.errors import type_error
from .callback import Callback


class CallbackToHook(tf.train.SessionRunHook):  # type: ignore[misc]  # TensorFlow has no types
    """
    A `SessionRunHook` that forwards `before_run` and `after_run` to a callback.

    Args:
        cb: the callback.
    """

    def __init__(self, cb: Callback) -> None:
        self.callback = cb

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        """Call the callback's `before_run`."""
        return self.callback.before_run(run_context)

    def after_run(self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        """Call the callback's `after_run`."""
        self.callback.after_run(run_context, run_values)


class HookToCallback(Callback):
    """
    A callback that runs a `SessionRunHook` in a trainer.

    Args:
        hook: any `SessionRunHook`.

    Runs at: setup_graph (`begin`), before_train (`after_create_session`, with `coord` None), every run,
        after_train (`end`).

    Raises:
        TypeError: `hook` is not a `SessionRunHook`.
    """

    _chief_only = False

    def __init__(self, hook: tf.train.SessionRunHook) -> None:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise type_error("HookToCallback", "a tf.train.SessionRunHook", hook)
        self._hook = hook

    def _setup_graph(self) -> None:
        with tf.name_scope(None):
            self._hook.begin()

    def _before_train(self) -> None:
        self._hook.after_create_session(tf.get_default_session(), None)

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        return self._hook.before_run(ctx)

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        self._hook.after_run(ctx, run_values)

    def _after_train(self) -> None:
        self._hook.end(self.trainer.sess)
