"""
One combination of fetches, feeds and options, prepared so that running it again costs next to nothing.

What the caller and all hooks ask for is flattened into tensors and operations, each once; these become one callable of
TensorFlow's runtime; its values are put back into the structures that were asked for.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ..compat import private
from ..compat import tfv1 as tf
from ..tfutils.common import find_name, value_of

__all__ = ["NOTHING", "Step", "StepCache"]

_MAX_STEPS = 128
# on TF 1.15 each look-up in a module of TensorFlow costs a microsecond
_SessionRunValues = tf.train.SessionRunValues

NOTHING = _SessionRunValues(results=None, options=None, run_metadata=None)
"""What a hook gets that asked for nothing."""


class StepCache:
    """
    The steps of one session, each prepared when it is first asked for.

    Args:
        session: an open `tf.Session`.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._steps: dict[Any, Step] = {}

    def find(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, requests: list[Any]
    ) -> Step:
        """Find the prepared step for this combination, or prepare it; the arguments are those of `HookedSession.run`."""
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
            self._steps[key] = Step(
                self._session, fetches, feed_keys, merged, run_metadata is not None, requests
            )
        return self._steps[key]


class Step:
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
        self._nothing = [NOTHING] * (len(requests) + 1)
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
