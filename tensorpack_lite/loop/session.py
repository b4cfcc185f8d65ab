"""
The session that a training step runs in: it runs what the trainer asks for together with what callbacks ask for.

A step's combined fetches are the same most of the time. So each distinct combination is prepared once, as a
callable of TensorFlow's runtime, and a step costs little more than that callable (`tests/benchmarks/step_cost.py`).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ..compat import private
from ..compat import tfv1 as tf
from .callback import Callback
from .hooks import CallbackToHook

__all__ = ["HookedSession"]

_MAX_STEPS = 128
_NOTHING = tf.train.SessionRunValues(results=None, options=None, run_metadata=None)


class HookedSession:
    """
    A session with hooks: every run also evaluates what the hooks ask for, and hands it to them.

    It has what trainers and callbacks use of `tf.train.MonitoredSession`. For each `run`: every hook's `before_run` is
    called, in order; the fetches, feeds and options of all are run as one step; then every hook's `after_run`.

    A `SessionRunArgs` that a hook returns again as the same object is taken to mean the same fetches.

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
        self._afters: list[tuple[Callable[[Any, Any], None], int]] = []
        for hook in hooks:
            self._register(hook.callback if isinstance(hook, CallbackToHook) else hook)
        self._steps: dict[Any, _Step] = {}
        self._last: tuple[Any, list[Any], _Step] | None = None
        self._context: tuple[Any, Any] = (None, None)
        self._stop_requested = False
        self._closed = False
        self._coordinator = tf.train.Coordinator() if start_queue_runners else None
        self._queue_threads: list[Any] = []
        if self._coordinator is not None and self.graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            self._queue_threads = tf.train.start_queue_runners(session, coord=self._coordinator)

    def _register(self, hook: Any) -> None:
        """Note the methods to call; those a callback inherits from Callback do nothing and are left out."""
        position = -1
        if _does_something(hook, "before_run"):
            position = len(self._befores)
            self._befores.append(hook.before_run)
        if _does_something(hook, "after_run"):
            self._afters.append((hook.after_run, position))

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """
        Run one step with all hooks.

        Args:
            fetches, feed_dict, options, run_metadata: as in `tf.Session.run`.

        Returns:
            The values of `fetches`, in its structure.

        Raises:
            RuntimeError: the session is closed, or two parties feed the same tensor.
            Exception: whatever a hook raises; and when TensorFlow reports an error whose cause is an exception behind a
                callback (such as a DataFlow's in its thread), that exception, with TensorFlow's as its cause.
        """
        if self._closed:
            raise RuntimeError("HookedSession.run: the session is closed. Training has ended.")
        context = self._context_of(fetches, feed_dict, options)
        requests = [before(context) for before in self._befores]
        step, feeds = self._prepare(fetches, feed_dict, options, run_metadata, requests)
        try:
            results, hook_values = step.run(feeds, run_metadata)
        except tf.errors.OpError as error:
            self._raise_cause_of(error)
        for after, position in self._afters:
            after(context, hook_values[position] if position >= 0 else _NOTHING)
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

    def _context_of(self, fetches: Any, feed_dict: Any, options: Any) -> Any:
        if feed_dict is None and options is None:
            if self._context[0] is not fetches or self._context[1] is None:
                self._context = (fetches, self._new_context(fetches, None, None))
            return self._context[1]
        return self._new_context(fetches, feed_dict, options)

    def _new_context(self, fetches: Any, feed_dict: Any, options: Any) -> Any:
        return tf.train.SessionRunContext(tf.train.SessionRunArgs(fetches, feed_dict, options), self.session)

    def _prepare(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, requests: list[Any]
    ) -> tuple[_Step, list[Any]]:
        """Find the prepared step for this combination, or prepare it."""
        plain = feed_dict is None and options is None and run_metadata is None
        if plain and self._last is not None and _same(self._last, fetches, requests):
            step = self._last[2]
            return step, step.collect_feeds(None, requests)
        feed_keys = [
            key for source in [feed_dict, *[r and r.feed_dict for r in requests]] for key in source or ()
        ]
        merged = _merge_options(options, requests)
        key = (
            _structure_key(fetches),
            tuple(request and _structure_key(request.fetches) for request in requests),
            _structure_key(feed_keys),
            merged and merged.SerializeToString(),
            run_metadata is not None,
        )
        if key not in self._steps:
            if len(self._steps) >= _MAX_STEPS:
                self._steps.clear()
            self._steps[key] = _Step(self.session, fetches, feed_keys, merged, run_metadata is not None, requests)
        step = self._steps[key]
        if plain and _is_constant(fetches):
            self._last = (fetches, requests, step)
        return step, step.collect_feeds(feed_dict, requests)

    def _raise_cause_of(self, error: Any) -> None:
        for callback in self._callbacks:
            cause = callback.background_error()
            if cause is not None:
                raise cause from (cause.__cause__ or error)
        if self._coordinator is not None:
            self._coordinator.raise_requested_exception()
        raise private.explain_error(self.session, error) from None


class _Step:
    """One combination of fetches, feeds and options, ready to run."""

    def __init__(
        self,
        session: Any,
        fetches: Any,
        feed_keys: list[Any],
        options: Any,
        wants_metadata: bool,
        requests: list[Any],
    ) -> None:
        graph = session.graph
        # The ids of these objects are in the cache's key, so they must live as long as the step does.
        self._kept = (fetches, feed_keys, [request and request.fetches for request in requests])
        self._options = options
        self._traced = options is not None or wants_metadata
        feeds = _resolve_feeds(graph, feed_keys)
        self._feed_specs = [_Feed(tensor) for tensor in feeds]
        leaves = _Leaves(graph)
        self._build_result = leaves.add(fetches)
        self._builders = [
            leaves.add(request.fetches) if request is not None and request.fetches is not None else None
            for request in requests
        ]
        # A tensor that is fed is not computed: its value is put among the results.
        position_of_feed = {feed.name: position for position, feed in enumerate(feeds)}
        self._fed = [
            (i, position_of_feed[t.name]) for i, t in enumerate(leaves.tensors) if t.name in position_of_feed
        ]
        computed = [t for t in leaves.tensors if t.name not in position_of_feed]
        self._call = None
        if computed or leaves.operations:
            self._call = private.make_callable(session, computed, leaves.operations, feeds, options)

    def collect_feeds(self, feed_dict: Any, requests: list[Any]) -> list[Any]:
        """Convert what is fed this time to arrays, in the order of the prepared feeds."""
        if not self._feed_specs:
            return []
        sources = [feed_dict, *[request and request.feed_dict for request in requests]]
        values = [value for source in sources for value in (source or {}).values()]
        return [spec.convert(value) for spec, value in zip(self._feed_specs, values)]

    def run(self, feeds: list[Any], run_metadata: Any) -> tuple[Any, list[Any]]:
        """Run once; returns the caller's results and each hook's `SessionRunValues`."""
        values: Any = []
        if self._traced:
            run_metadata = run_metadata if run_metadata is not None else tf.RunMetadata()
            values = self._call and self._call(*feeds, run_metadata=run_metadata)
        elif self._call is not None:
            values = self._call(*feeds)
        if self._fed:
            values = list(values or [])
            for index, feed in self._fed:
                values.insert(index, feeds[feed])
        hook_values = [
            _NOTHING
            if build is None and not self._traced
            else tf.train.SessionRunValues(build and build(values), self._options, run_metadata)
            for build in self._builders
        ]
        return self._build_result and self._build_result(values), hook_values


class _Leaves:
    """The tensors and operations inside structures of fetches, each once, and how to build the structures again."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._index: dict[str, int] = {}
        self.tensors: list[Any] = []
        self.operations: list[Any] = []

    def add(self, fetches: Any) -> Callable[[Any], Any] | None:
        """Take in a structure; returns a function from the list of values to the structure, None for a constant None."""
        if isinstance(fetches, dict):
            builders = {key: self.add(value) for key, value in fetches.items()}
            return lambda values: type(fetches)((key, b and b(values)) for key, b in builders.items())
        if isinstance(fetches, (tf.SparseTensor, tf.SparseTensorValue)):
            build_parts = self.add([fetches.indices, fetches.values, fetches.dense_shape])
            return lambda values: tf.SparseTensorValue(*build_parts(values))  # type: ignore[misc]
        if isinstance(fetches, tf.IndexedSlices):
            parts = self.add(
                [part for part in (fetches.values, fetches.indices, fetches.dense_shape) if part is not None]
            )
            return lambda values: private.IndexedSlicesValue(*(parts(values) + [None])[:3])  # type: ignore[misc]
        if isinstance(fetches, (list, tuple)):
            builders_list = [self.add(value) for value in fetches]
            if hasattr(fetches, "_fields"):
                return lambda values: type(fetches)(*[b and b(values) for b in builders_list])  # type: ignore[arg-type]
            return lambda values: type(fetches)([b and b(values) for b in builders_list])
        return self._add_leaf(fetches)

    def _add_leaf(self, leaf: Any) -> Callable[[Any], Any] | None:
        try:
            element = self._graph.as_graph_element(leaf, allow_tensor=True, allow_operation=True)
        except TypeError as error:
            raise TypeError(
                f"HookedSession.run: cannot fetch {leaf!r} of type {type(leaf).__name__}, wanted tensors, operations, "
                "variables or names."
            ) from error
        if isinstance(element, tf.Operation):
            if all(op is not element for op in self.operations):
                self.operations.append(element)
            return None
        index = self._index.get(element.name)
        if index is None:
            index = self._index[element.name] = len(self.tensors)
            self.tensors.append(element)
        return lambda values: values[index]


class _Feed:
    """A tensor that is fed: turns values into arrays the runtime takes."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self._dtype = tensor.dtype.as_numpy_dtype

    def convert(self, value: Any) -> np.ndarray:
        """Make an array of the tensor's dtype and check its shape."""
        if isinstance(value, tf.Tensor):
            raise TypeError(
                f"HookedSession.run: a tensor ({value.name}) was fed to {self._tensor.name}. Feed an array."
            )
        array = np.asarray(value, dtype=self._dtype)
        if not self._tensor.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"HookedSession.run: cannot feed an array of shape {array.shape} to {self._tensor.name}, which has shape "
                f"{self._tensor.shape}."
            )
        return array


def _resolve_feeds(graph: Any, keys: list[Any]) -> list[Any]:
    feeds: list[Any] = []
    for key in keys:
        tensor = graph.as_graph_element(key, allow_operation=False)
        if any(tensor is other for other in feeds):
            raise RuntimeError(
                f"HookedSession.run: {tensor.name} is fed twice, by run() and a hook or by two hooks."
            )
        feeds.append(tensor)
    return feeds


def _merge_options(options: Any, requests: list[Any]) -> Any:
    """Combine run options: the longest time limit and the highest trace level win, debug watches add up."""
    asked = [o for o in [options, *[request and request.options for request in requests]] if o is not None]
    if not asked:
        return None
    merged = tf.RunOptions()
    for one in asked:
        trace_level = max(merged.trace_level, one.trace_level)
        timeout = max(merged.timeout_in_ms, one.timeout_in_ms)
        partition_graphs = merged.output_partition_graphs or one.output_partition_graphs
        merged.MergeFrom(one)
        merged.trace_level = trace_level
        merged.timeout_in_ms = timeout
        merged.output_partition_graphs = partition_graphs
    return merged


def _structure_key(fetches: Any) -> Any:
    if isinstance(fetches, (list, tuple)):
        return (type(fetches), *map(_structure_key, fetches))
    if isinstance(fetches, dict):
        return (type(fetches), *[(key, _structure_key(value)) for key, value in fetches.items()])
    return fetches if isinstance(fetches, str) else id(fetches)


def _is_constant(fetches: Any) -> bool:
    return not isinstance(fetches, (list, dict))


def _same(last: tuple[Any, list[Any], _Step], fetches: Any, requests: list[Any]) -> bool:
    """Whether nothing has changed since the last step, object by object."""
    if last[0] is not fetches:
        return False
    for one, other in zip(last[1], requests):  # noqa: SIM110 (a generator here costs more than the comparisons)
        if one is not other:
            return False
    return True


def _does_something(hook: Any, moment: str) -> bool:
    if not isinstance(hook, Callback):
        return True
    kind = type(hook)
    inherited = (
        getattr(kind, moment) is getattr(Callback, moment)
        and getattr(kind, f"_{moment}") is getattr(Callback, f"_{moment}")
        and moment not in vars(hook)
        and f"_{moment}" not in vars(hook)
    )
    return not inherited
