"""
The session of training steps, which runs the fetches of the trainer and of all callbacks together.

The combined fetches of a step rarely change. So each distinct combination is prepared once, as a callable of
TensorFlow's runtime, and a step costs little more than that callable (`benchmarks/step_cost.py`).
"""

from __future__ import annotations

from operator import is_
from typing import Any, Callable, Mapping, NamedTuple, NoReturn, Sequence

from ..compat import private
from ..compat import tfv1 as tf
from .callback import Call, Callback, is_overridden, to_run_args
from .hooks import CallbackToHook
from .observer import RunObserver
from .step import Request, Step, StepCache

# on TF 1.15 each attribute of a TensorFlow module costs a microsecond
_SessionRunArgs = tf.train.SessionRunArgs


class HookedSession:
    """
    A session with hooks: every run also evaluates the fetches that the hooks request, and passes them the values.

    It has the methods of `tf.train.MonitoredSession` that trainers and callbacks use. Each `run` calls
    `before_run` of every hook in order, runs all fetches, feeds and options as one step, and calls
    `after_run` of every hook.

    If a hook returns the same `SessionRunArgs` object again, the session assumes that its fetches are the same.

    A hook that has a method `complete_run(ctx, fetches)` gets a second call with the full fetch list if its
    `before_run` returned None. The result counts as if `before_run` had returned it. It is reused, without
    another call, as long as all hooks request the same objects; so it cannot count runs.

    Args:
        session: an open, initialized `tf.Session`.
        hooks: a list of `SessionRunHook`; only `before_run` and `after_run` are called.
        start_queue_runners: start the queue runners in the collection `QUEUE_RUNNERS`; `close` stops them.

    Attributes:
        session: the raw session.
        graph: its graph.
        is_running: whether a run is in progress. Any thread may read it.
        current_call: the callback that is being called before or after a run, as a `Call`; otherwise None. Any thread
            may read it.
        observers: the objects that see each run; see `RunObserver`. Any thread may add and remove them, from the next run on.
        failed: the prepared combination of fetches of the run that failed; None if no run has.

    Note: it does not initialize, restore or recover anything. It may be used by one thread at a time.
    """

    def __init__(
        self, session: tf.Session, hooks: Sequence[tf.train.SessionRunHook], start_queue_runners: bool = False
    ) -> None:
        self.session = session
        self.graph = session.graph
        self.is_running = False
        self.current_call: Call | None = None
        self._callbacks = [hook.callback for hook in hooks if isinstance(hook, CallbackToHook)]
        self._befores: list[tuple[Call | None, Callable[[Any], Any]]] = []
        self._completers: list[tuple[Callable[[Any, Any], Any], int]] = []
        self._afters: list[tuple[Call | None, Callable[[Any, Any], None], int]] = []
        for hook in hooks:
            self._register(hook.callback if isinstance(hook, CallbackToHook) else hook)
        self.observers: list[RunObserver] = []
        self.failed: Step | None = None
        self._steps = StepCache(session)
        self._last = _LastRun()
        self._stop_requested = False
        self._closed = False
        self._coordinator: tf.train.Coordinator | None = None
        self._queue_threads: list[Any] = []
        if start_queue_runners and self.graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            self._coordinator = tf.train.Coordinator()
            self._queue_threads = tf.train.start_queue_runners(session, coord=self._coordinator)

    def _register(self, hook: tf.train.SessionRunHook) -> None:
        """Store the methods to call; those that a callback inherits from Callback do nothing and are omitted."""
        is_callback = isinstance(hook, Callback)
        position = -1
        before = _bound_method(hook, "before_run")
        if before is not None:
            position = len(self._befores)
            self._befores.append((Call(hook, "_before_run") if is_callback else None, before))
            if hasattr(hook, "complete_run"):
                self._completers.append((hook.complete_run, position))
        after = _bound_method(hook, "after_run")
        if after is not None:
            self._afters.append((Call(hook, "_after_run") if is_callback else None, after, position))

    def run(
        self,
        fetches: object,
        feed_dict: Mapping[Any, Any] | None = None,
        options: tf.RunOptions | None = None,
        run_metadata: tf.RunMetadata | None = None,
    ) -> Any:
        """
        Run one step with all hooks.

        Args:
            fetches, feed_dict, options, run_metadata: as in `tf.Session.run`. The name of a variable
                (`"w:0"`) means its value, for every kind of variable.

        Returns:
            The values of `fetches`, in its structure.

        Raises:
            RuntimeError: the session is closed, or the same tensor is fed twice.
            KeyError: a name is not in the graph; the message names the nearest ones.
            Exception: any error of a hook. If an error of TensorFlow was caused by another exception, for
                example by an error of a DataFlow in its thread, that exception is raised, with TensorFlow's
                error as its cause.
        """
        if self._closed:
            raise RuntimeError("HookedSession.run: the session is closed. Training has ended.")
        self.is_running = True
        try:
            last = self._last
            is_plain = feed_dict is None and options is None and run_metadata is None
            is_again = is_plain and fetches is last.fetches
            context = last.context
            if not is_again:
                args = _SessionRunArgs(fetches, feed_dict, options)
                context = tf.train.SessionRunContext(args, self.session)
            requests = []
            for call, before in self._befores:
                self.current_call = call
                requests.append(before(context))
            self.current_call = None
            if is_again and all(map(is_, requests, last.asked)):
                requests, step = last.requests, last.step
            else:
                asked = [_normalized(request, pair[1]) for request, pair in zip(requests, self._befores)]
                requests = self._completed(context, asked) if self._completers else asked
                step = self._steps.find(fetches, feed_dict, options, run_metadata, requests)
                if is_plain and not isinstance(fetches, (list, dict)):
                    self._last = _LastRun(fetches, context, asked, requests, step)
            try:
                run = self._run_observed if self.observers else Step.run
                results, hook_values = run(step, feed_dict, requests, run_metadata)
            except tf.errors.OpError as error:
                self.failed = step
                self._raise_cause_of(error)
            for call, after, position in self._afters:
                self.current_call = call
                after(context, hook_values[position])
            if context.stop_requested:
                self._stop_requested = True
            return results
        finally:
            self.is_running, self.current_call = False, None

    def _run_observed(self, step: Step, *args: Any) -> tuple[Any, list[tf.train.SessionRunValues]]:
        observers = tuple(self.observers)
        for observer in observers:
            observer.begin_run(step)
        succeeded = False
        try:
            values = step.run(*args)
            succeeded = True
        finally:
            for observer in observers:
                observer.end_run(step, succeeded)
        return values

    def replace_calls(self, replace: Callable[[Call, Any], Any]) -> None:
        """Replace each method of a callback that is called in a run by `replace(call, method)`."""
        self._befores = [(call, method if call is None else replace(call, method)) for call, method in self._befores]
        self._afters = [
            (call, method if call is None else replace(call, method), position)
            for call, method, position in self._afters
        ]

    def should_stop(self) -> bool:
        """Return whether the loop must end before its next step."""
        if self._closed or self._stop_requested:
            return True
        return self._coordinator is not None and self._coordinator.should_stop()

    def request_stop(self) -> None:
        """Make `should_stop` return True from now on."""
        self._stop_requested = True

    def close(self) -> None:
        """Stop the queue runners and close the raw session. Further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        if self._coordinator is not None:
            self._coordinator.request_stop()
        self.session.close()
        if self._coordinator is not None:
            self._coordinator.join(self._queue_threads, stop_grace_period_secs=10, ignore_live_threads=True)

    def _completed(self, context: tf.train.SessionRunContext, asked: list[Request]) -> list[Request]:
        """Call `complete_run` of the hooks that have requested nothing."""
        fetches = [context.original_args.fetches, *[request and request.fetches for request in asked]]
        requests = asked.copy()
        for complete, position in self._completers:
            if asked[position] is None:
                requests[position] = _normalized(complete(context, fetches), complete)
        return requests

    def _raise_cause_of(self, error: tf.errors.OpError) -> NoReturn:
        for callback in self._callbacks:
            cause = callback.background_error()
            if cause is not None:
                raise cause from cause.__cause__  # the error of the run is only its effect
        if self._coordinator is not None:
            self._coordinator.raise_requested_exception()
        raise private.explain_error(self.session, error) from None


class _LastRun(NamedTuple):
    """The objects of the last run; a run of the same objects reuses its step."""

    fetches: Any = None
    context: Any = None
    asked: Any = None
    requests: Any = None
    step: Any = None


def _normalized(request: object, before: Callable[..., Any]) -> Request:
    """Convert the result of a callback's `_before_run` to a `SessionRunArgs` or None."""
    if request is None or isinstance(request, _SessionRunArgs):
        return request
    return to_run_args(request, str(getattr(before, "__self__", before)))


def _bound_method(hook: Callback | tf.train.SessionRunHook, moment: str) -> Callable[..., Any] | None:
    """Return the innermost method that a hook defines for a moment, or None if it inherits an empty one."""
    if not isinstance(hook, Callback):
        return getattr(hook, moment)
    if is_overridden(hook, moment):
        return getattr(hook, moment)
    return getattr(hook, f"_{moment}") if is_overridden(hook, f"_{moment}") else None
