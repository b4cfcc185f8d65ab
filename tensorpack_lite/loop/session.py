"""
The session that a training step runs in: it runs what the trainer asks for together with what callbacks ask for.

A step's combined fetches are the same most of the time. So each distinct combination is prepared once, as a
callable of TensorFlow's runtime, and a step costs little more than that callable (`tests/benchmarks/step_cost.py`).
"""

from __future__ import annotations

from operator import is_
from typing import Any, Callable, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from .callback import Callback, is_overridden, to_run_args
from .hooks import CallbackToHook
from .step import StepCache

__all__ = ["HookedSession"]

# on TF 1.15 each look-up in a module of TensorFlow costs a microsecond
_SessionRunArgs = tf.train.SessionRunArgs


class HookedSession:
    """
    A session with hooks: every run also evaluates what the hooks ask for, and hands it to them.

    It has what trainers and callbacks use of `tf.train.MonitoredSession`. For each `run`: every hook's `before_run` is
    called, in order; the fetches, feeds and options of all are run as one step; then every hook's `after_run`.

    A `SessionRunArgs` that a hook returns again as the same object is taken to mean the same fetches.

    A hook that asked for nothing and has a method `complete_run(ctx, fetches)` is asked once more, knowing all that the
    caller and the hooks fetch; what it returns counts as if `before_run` had. As long as all of them ask for the same
    objects, the answer stands and the method is not called.

    Args:
        session: an open, initialized `tf.Session`.
        hooks: a list of `SessionRunHook`; of those only `before_run` and `after_run` are called.
        start_queue_runners: start what is in the collection `QUEUE_RUNNERS`, and stop it in `close`.

    Attributes:
        session: the raw session.
        graph: its graph.

    Note: it does not initialize, restore or recover anything. To be used from one thread at a time.

    tensorpack: there it is a `tf.train.MonitoredSession`, which costs several times as much a step.
    """

    def __init__(self, session: Any, hooks: Sequence[Any], start_queue_runners: bool = False) -> None:
        self.session = session
        self.graph = session.graph
        self._callbacks = [hook.callback for hook in hooks if isinstance(hook, CallbackToHook)]
        self._befores: list[Callable[[Any], Any]] = []
        self._completers: list[tuple[Callable[[Any, Any], Any], int]] = []
        self._afters: list[tuple[Callable[[Any, Any], None], int]] = []
        for hook in hooks:
            self._register(hook.callback if isinstance(hook, CallbackToHook) else hook)
        self._steps = StepCache(session)
        self._last = _LastRun()
        self._stop_requested = False
        self._closed = False
        self._coordinator: Any = None
        self._queue_threads: list[Any] = []
        if start_queue_runners and self.graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            self._coordinator = tf.train.Coordinator()
            self._queue_threads = tf.train.start_queue_runners(session, coord=self._coordinator)

    def _register(self, hook: Any) -> None:
        """Note the methods to call; those a callback inherits from Callback do nothing and are left out."""
        position = -1
        before = _bound_method(hook, "before_run")
        if before is not None:
            position = len(self._befores)
            self._befores.append(before)
            if hasattr(hook, "complete_run"):
                self._completers.append((hook.complete_run, position))
        after = _bound_method(hook, "after_run")
        if after is not None:
            self._afters.append((after, position))

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """
        Run one step with all hooks.

        Args:
            fetches, feed_dict, options, run_metadata: as in `tf.Session.run`. The name of a variable (`"w:0"`) means its
                value, whichever kind of variable it is.

        Returns:
            The values of `fetches`, in its structure.

        Raises:
            RuntimeError: the session is closed, or two parties feed the same tensor.
            KeyError: a name is not in the graph; names the nearest ones.
            Exception: whatever a hook raises; and when TensorFlow reports an error whose cause is an exception behind a
                callback (such as a DataFlow's in its thread), that exception, with TensorFlow's as its cause.
        """
        if self._closed:
            raise RuntimeError("HookedSession.run: the session is closed. Training has ended.")
        last = self._last
        is_again = fetches is last.fetches and feed_dict is None and options is None and run_metadata is None
        context = last.context if is_again else self._new_context(fetches, feed_dict, options)
        requests = [before(context) for before in self._befores]
        if is_again and all(map(is_, requests, last.asked)):
            requests, step = last.requests, last.step
        else:
            asked = [_normalized(*pair) for pair in zip(requests, self._befores)]
            requests = self._completed(context, asked) if self._completers else asked
            step = self._steps.find(fetches, feed_dict, options, run_metadata, requests)
            is_plain = feed_dict is None and options is None and run_metadata is None
            if is_plain and not isinstance(fetches, (list, dict)):
                self._last = _LastRun(fetches, context, asked, requests, step)
        try:
            results, hook_values = step.run(feed_dict, requests, run_metadata)
        except tf.errors.OpError as error:
            self._raise_cause_of(error)
        for after, position in self._afters:
            after(context, hook_values[position])
        if context.stop_requested:
            self._stop_requested = True
        return results

    def should_stop(self) -> bool:
        """Tell whether the loop must end before its next step."""
        if self._closed or self._stop_requested:
            return True
        return self._coordinator is not None and self._coordinator.should_stop()

    def request_stop(self) -> None:
        """Make `should_stop` true from now on."""
        self._stop_requested = True

    def close(self) -> None:
        """Stop the queue runners and close the raw session. Doing it again changes nothing."""
        if self._closed:
            return
        self._closed = True
        if self._coordinator is not None:
            self._coordinator.request_stop()
        self.session.close()
        if self._coordinator is not None:
            self._coordinator.join(self._queue_threads, stop_grace_period_secs=10, ignore_live_threads=True)

    def _completed(self, context: Any, asked: list[Any]) -> list[Any]:
        """Let hooks that asked for nothing add what the requests of the others call for."""
        fetches = [context.original_args.fetches, *[request and request.fetches for request in asked]]
        requests = asked.copy()
        for complete, position in self._completers:
            if asked[position] is None:
                requests[position] = _normalized(complete(context, fetches), complete)
        return requests

    def _new_context(self, fetches: Any, feed_dict: Any, options: Any) -> Any:
        return tf.train.SessionRunContext(_SessionRunArgs(fetches, feed_dict, options), self.session)

    def _raise_cause_of(self, error: Any) -> None:
        for callback in self._callbacks:
            cause = callback.background_error()
            if cause is not None:
                raise cause from (cause.__cause__ or error)
        if self._coordinator is not None:
            self._coordinator.raise_requested_exception()
        raise private.explain_error(self.session, error) from None


class _LastRun:
    """What the last run was made of: while nothing of it changes, object by object, its step serves again."""

    __slots__ = ("asked", "context", "fetches", "requests", "step")

    def __init__(
        self,
        fetches: Any = None,
        context: Any = None,
        asked: Any = None,
        requests: Any = None,
        step: Any = None,
    ) -> None:
        self.fetches = fetches
        self.context = context
        self.asked = asked
        self.requests = requests
        self.step = step


def _normalized(request: Any, before: Any) -> Any:
    """Turn what a callback's `_before_run` returned into a `SessionRunArgs` or None."""
    if request is None or isinstance(request, _SessionRunArgs):
        return request
    return to_run_args(request, str(getattr(before, "__self__", before)))


def _bound_method(hook: Any, moment: str) -> Any:
    """Give what to call at a moment: the innermost method that does something, None if there is none."""
    if not isinstance(hook, Callback):
        return getattr(hook, moment)
    if is_overridden(hook, moment):
        return getattr(hook, moment)
    return getattr(hook, f"_{moment}") if is_overridden(hook, f"_{moment}") else None
