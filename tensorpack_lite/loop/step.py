"""
Prepared combinations of fetches, feeds and options, which are fast to run again.

The fetches of the caller and of all hooks are flattened into a list of distinct tensors and operations, which
becomes one callable of TensorFlow's runtime. Its values are put back into the structures of the fetches.
"""

from __future__ import annotations

from typing import Any, Callable, Hashable, Mapping, Optional, Sequence

import numpy as np

from ..compat import private
from ..compat import tfv1 as tf
from ..compat.value_names import refuse_feed, value_of
from ..tfutils.common import find_fetch
from ..tfutils.dependency import dependency_of_fetches
from ..tfutils.feed import FeedConverter
from ..tfutils.fetches import prepare_run

Request = Optional[tf.train.SessionRunArgs]
"""The request of a hook for a run; None if it requests nothing."""

_MAX_STEPS = 128
# on TF 1.15 each attribute of a TensorFlow module costs a microsecond
_SessionRunValues = tf.train.SessionRunValues

NOTHING = _SessionRunValues(results=None, options=None, run_metadata=None)
"""The values for a hook that has requested nothing."""


class StepCache:
    """
    The prepared steps of one session.

    Args:
        session: an open `tf.Session`.
    """

    def __init__(self, session: tf.Session) -> None:
        self._session = session
        self._steps: dict[Hashable, Step] = {}

    def find(
        self,
        fetches: object,
        feed_dict: Mapping[Any, Any] | None,
        options: tf.RunOptions | None,
        run_metadata: tf.RunMetadata | None,
        requests: list[Request],
    ) -> Step:
        """Return the step for these arguments of `HookedSession.run`. It is prepared at the first call."""
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
            self._steps[key] = Step(self._session, fetches, feed_keys, merged, run_metadata is not None, requests)
        return self._steps[key]


class Step:
    """
    A combination of fetches, feeds and options that is ready to run.

    Attributes:
        fetches: the distinct tensors and operations that it evaluates.
    """

    def __init__(
        self,
        session: tf.Session,
        fetches: object,
        feed_keys: list[tf.Tensor | str],
        options: tf.RunOptions | None,
        wants_metadata: bool,
        requests: list[Request],
    ) -> None:
        graph = session.graph
        # The key of the cache contains the ids of these objects, so they must live as long as the step.
        self._kept = (fetches, feed_keys, [request and request.fetches for request in requests])
        self._options = options
        self._traced = options is not None or wants_metadata
        feeds = _resolve_feeds(graph, feed_keys)
        self._conversions = [
            FeedConverter(f"HookedSession.run: the value for {tensor.name}", tensor.dtype, tensor.shape).convert
            for tensor in feeds
        ]
        leaves = _Leaves(graph)
        self._build_result = leaves.add(fetches)
        self._builders = [
            leaves.add(request.fetches) if request is not None and request.fetches is not None else None
            for request in requests
        ]
        self._positions = [(i, build) for i, build in enumerate(self._builders) if build is not None]
        self._nothing = [NOTHING] * (len(requests) + 1)
        # A tensor that is fed is not computed; its value is copied to the results.
        position_of_feed = {feed.name: position for position, feed in enumerate(feeds)}
        self._fed = [(i, position_of_feed[t.name]) for i, t in enumerate(leaves.tensors) if t.name in position_of_feed]
        computed = [t for t in leaves.tensors if t.name not in position_of_feed]
        self.fetches: list[tf.Tensor | tf.Operation] = [*computed, *leaves.operations]
        self._call = None
        if computed or leaves.operations:
            self._call = prepare_run("HookedSession.run", session, computed, leaves.operations, feeds, options)

    def count(self, operations: Sequence[tf.Operation]) -> int:
        """Return how many of some operations of the graph a run executes, outside of branches and loops."""
        return sum(dependency_of_fetches(self.fetches, operation) for operation in operations)

    def run(
        self,
        feed_dict: Mapping[Any, Any] | None,
        requests: list[Request],
        run_metadata: tf.RunMetadata | None,
    ) -> tuple[Any, list[tf.train.SessionRunValues]]:
        """Run once. Return the caller's results, and a `SessionRunValues` for each hook followed by an empty one."""
        feeds = self._collect_feeds(feed_dict, requests) if self._conversions else ()
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

    def _values_of_hooks(
        self, values: Sequence[np.ndarray], run_metadata: tf.RunMetadata | None
    ) -> list[tf.train.SessionRunValues]:
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

    def _collect_feeds(self, feed_dict: Mapping[Any, Any] | None, requests: list[Request]) -> list[np.ndarray]:
        """Convert the values of this run to arrays, in the order of the prepared feeds."""
        values = [value for source in _feed_sources(feed_dict, requests) for value in source.values()]
        return [convert(value) for convert, value in zip(self._conversions, values)]


class _Leaves:
    """The distinct tensors and operations in structures of fetches, and functions that rebuild the structures."""

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._index: dict[str, int] = {}
        self.tensors: list[tf.Tensor] = []
        self.operations: list[tf.Operation] = []

    def add(self, fetches: object) -> Callable[[Any], Any] | None:
        """Add a structure. Return a function that builds it from the list of values; None if the result is always None."""
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

    def _add_leaf(self, leaf: object) -> Callable[[Any], Any] | None:
        try:
            element = find_fetch(self._graph, leaf) if isinstance(leaf, str) else self._graph.as_graph_element(leaf)
        except TypeError as error:
            raise TypeError(
                f"HookedSession.run: cannot fetch {leaf!r} (expected tensors, operations, variables or names, got "
                f"{type(leaf).__name__})."
            ) from error
        element = value_of(element)
        if isinstance(element, tf.Operation):
            if all(op is not element for op in self.operations):
                self.operations.append(element)
            return None
        index = self._index.get(element.name)
        if index is None:
            index = self._index[element.name] = len(self.tensors)
            self.tensors.append(element)
        return lambda values: values[index]


def _resolve_feeds(graph: tf.Graph, keys: list[tf.Tensor | str]) -> list[tf.Tensor]:
    feeds: list[tf.Tensor] = []
    for key in keys:
        tensor = graph.as_graph_element(key, allow_operation=False)
        refuse_feed(tensor, "HookedSession.run")
        if any(tensor is other for other in feeds):
            raise RuntimeError(f"HookedSession.run: {tensor.name} is fed twice, by run() and a hook or by two hooks.")
        feeds.append(tensor)
    return feeds


def _merge_options(options: tf.RunOptions | None, requests: list[Request]) -> tf.RunOptions | None:
    """Merge run options: use the longest timeout, the highest trace level, and all debug watches."""
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


def _structure_key(fetches: object) -> Hashable:
    if isinstance(fetches, (list, tuple)):
        return (type(fetches), *map(_structure_key, fetches))
    if isinstance(fetches, dict):
        return (type(fetches), *[(key, _structure_key(value)) for key, value in fetches.items()])
    return fetches if isinstance(fetches, str) else id(fetches)


def _feed_sources(feed_dict: Mapping[Any, Any] | None, requests: list[Request]) -> list[Mapping[Any, Any]]:
    sources = [feed_dict, *[request.feed_dict for request in requests if request is not None]]
    return [source for source in sources if source]
