"""
The session that a training step runs in: it runs what the trainer asks for together with what callbacks ask for.

A step's combined fetches are the same most of the time. So each distinct combination is prepared once, as a
callable of TensorFlow's runtime, and a step costs little more than that callable (`tests/benchmarks/step_cost.py`).
"""

from __future__ import annotations

from operator import is_
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import private
from ..compat import tfv1 as tf
from ..tfutils.common import find_name, value_of
from .callback import Callback, is_overridden, to_run_args
from .hooks import CallbackToHook

__all__ = ["HookedSession"]

_MAX_STEPS = 128
# Looked up once: on TF 1.15 each look-up in a module of TensorFlow costs a microsecond.
_SessionRunArgs = tf.train.SessionRunArgs
_SessionRunValues = tf.train.SessionRunValues
_NOTHING = _SessionRunValues(results=None, options=None, run_metadata=None)


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
        if is_again and all(map(is_, requests, last.requests)):
            step = last.step
        else:
            requests = [_normalized(*pair) for pair in zip(requests, self._befores)]
            step = self._prepare(fetches, feed_dict, options, run_metadata, requests)
            is_plain = feed_dict is None and options is None and run_metadata is None
            if is_plain and not isinstance(fetches, (list, dict)):
                self._last = _LastRun(fetches, context, requests, step)
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

    def _new_context(self, fetches: Any, feed_dict: Any, options: Any) -> Any:
        return tf.train.SessionRunContext(_SessionRunArgs(fetches, feed_dict, options), self.session)

    def _prepare(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, requests: list[Any]
    ) -> _Step:
        """Find the prepared step for this combination, or prepare it."""
        feed_keys = [key for source in _feed_sources(feed_dict, requests) for key in source]
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
            self._steps[key] = _Step(
                self.session, fetches, feed_keys, merged, run_metadata is not None, requests
            )
        return self._steps[key]

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
        self._positions = [(i, build) for i, build in enumerate(self._builders) if build is not None]
        self._nothing = [_NOTHING] * (len(requests) + 1)
        # A tensor that is fed is not computed: its value is put among the results.
        position_of_feed = {feed.name: position for position, feed in enumerate(feeds)}
        self._fed = [
            (i, position_of_feed[t.name]) for i, t in enumerate(leaves.tensors) if t.name in position_of_feed
        ]
        computed = [t for t in leaves.tensors if t.name not in position_of_feed]
        self._call = None
        if computed or leaves.operations:
            self._call = private.make_callable(session, computed, leaves.operations, feeds, options)

    def run(self, feed_dict: Any, requests: list[Any], run_metadata: Any) -> tuple[Any, list[Any]]:
        """Run once; returns the caller's results and each hook's `SessionRunValues`, with one for no hook at the end."""
        feeds = self._collect_feeds(feed_dict, requests) if self._feed_specs else ()
        values: Any = ()
        if self._traced:
            run_metadata = run_metadata if run_metadata is not None else tf.RunMetadata()
            values = self._call and self._call(*feeds, run_metadata=run_metadata)
        elif self._call is not None:
            values = self._call(*feeds)
        if self._fed:
            values = list(values or ())
            for index, feed in self._fed:
                values.insert(index, feeds[feed])
        results = None if self._build_result is None else self._build_result(values)
        return results, self._values_of_hooks(values, run_metadata)

    def _values_of_hooks(self, values: Any, run_metadata: Any) -> list[Any]:
        if self._traced:
            return [
                _SessionRunValues(build and build(values), self._options, run_metadata)
                for build in [*self._builders, None]
            ]
        if not self._positions:
            return self._nothing
        hook_values = self._nothing.copy()
        for position, build in self._positions:
            hook_values[position] = _SessionRunValues(build(values), None, None)
        return hook_values

    def _collect_feeds(self, feed_dict: Any, requests: list[Any]) -> list[Any]:
        """Convert what is fed this time to arrays, in the order of the prepared feeds."""
        values = [value for source in _feed_sources(feed_dict, requests) for value in source.values()]
        return [spec.convert(value) for spec, value in zip(self._feed_specs, values)]


class _LastRun:
    """What the last run was made of: while nothing of it changes, object by object, its step serves again."""

    __slots__ = ("context", "fetches", "requests", "step")

    def __init__(
        self, fetches: Any = None, context: Any = None, requests: Any = None, step: Any = None
    ) -> None:
        self.fetches = fetches
        self.context = context
        self.requests = requests
        self.step = step


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
            graph, is_name = self._graph, isinstance(leaf, str)
            element = value_of(find_name(graph, leaf)) if is_name else graph.as_graph_element(leaf)
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
        self._good_shape: Any = (
            None  # the last one that fitted: comparing tuples is cheaper than asking TensorFlow
        )

    def convert(self, value: Any) -> np.ndarray:
        """Make an array of the tensor's dtype and check its shape."""
        if isinstance(value, tf.Tensor):
            raise TypeError(
                f"HookedSession.run: a tensor ({value.name}) was fed to {self._tensor.name}. Feed an array."
            )
        array = np.asarray(value, dtype=self._dtype)
        if array.shape != self._good_shape:
            self._check_shape(array)
        return array

    def _check_shape(self, array: np.ndarray) -> None:
        if not self._tensor.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"HookedSession.run: cannot feed an array of shape {array.shape} to {self._tensor.name}, which has shape "
                f"{self._tensor.shape}."
            )
        self._good_shape = array.shape


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


def _feed_sources(feed_dict: Any, requests: list[Any]) -> list[Any]:
    sources = [feed_dict, *[request.feed_dict for request in requests if request is not None]]
    return [source for source in sources if source]


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
