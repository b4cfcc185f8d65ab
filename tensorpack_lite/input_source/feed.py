"""Input that feeds a datapoint at each run, in the main thread."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..dataflow.raw import how_to_wrap
from ..dataflow.repeat import RepeatedData
from ..loop.callback import Callback
from ..loop.callback_factory import CallbackFactory
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..utils.checks import check_type
from .base import InputSource
from .datapoint import DatapointConverter, iterate_named
from .stream import Stream
from .whole_passes import WholePasses


class FeedInput(InputSource):
    """
    InputSource that feeds the next datapoint of a DataFlow to placeholders at every run of the hooked session.

    It is simple, but each step waits for its datapoint. All towers get the same placeholders, so it supports
    only one tower.

    Args:
        ds: the DataFlow. It must not be used elsewhere. It is reset in `setup_graph` of the callbacks.
        infinite: whether to repeat the DataFlow. False: at its end, the run raises StopIteration, which in
            training is an error.

    Attributes:
        ds: as given.

    Raises:
        TypeError: `ds` is not a DataFlow. In a run: a component has the wrong dtype.
        ValueError: in a run: the number of components or a shape is wrong.
        Exception: in a run: the DataFlow raised it. The message names the DataFlow.

    Difference from tensorpack: tensorpack feeds floats to an integer input and truncates them. This library raises a
    TypeError.
    """

    def __init__(self, ds: DataFlow, infinite: bool = True) -> None:
        check_type("FeedInput: ds", ds, DataFlow, advice=how_to_wrap(ds, "FeedInput({})"))
        self.ds = ds
        self._infinite = infinite
        self._passes = ds
        self._stream: Stream
        self._was_reset = False
        self._datapoints: Iterator[Any] | None = None

    def require_exact_size(self) -> None:
        """Raise an error in a pass with fewer datapoints than `len(ds)`, if the data is repeated."""
        if self._infinite:
            self._passes = WholePasses(self.ds)

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._placeholders = [build_or_reuse_placeholder(spec) for spec in input_signature]
        # faster keys than tensors
        self._feed_names = [placeholder.name for placeholder in self._placeholders]
        self._who = self.flow.name_input("FeedInput")
        self._convert = self.flow.converter = DatapointConverter(self._who, input_signature)
        self.flow.threads = []
        self._stream = self.flow.open(self.ds, RepeatedData(self._passes, -1) if self._infinite else self.ds)

    def _get_input_tensors(self) -> list[tf.Tensor]:
        return self._placeholders

    def _get_callbacks(self) -> list[Callback]:
        feed = _FeedCallback(self) if self._stream.stamp is None else _CountingFeedCallback(self)
        return [feed, CallbackFactory(setup_graph=lambda _: self._stream.reset())]

    def _reset_state(self) -> None:
        if self._was_reset:  # for another round of inference
            self._datapoints = None
            self.flow.leave_pass()
        self._was_reset = True
        self._datapoints = iterate_named(self._stream, self._who, self.ds)

    def _size(self) -> int:
        return len(self.ds)

    def next_feeds(self) -> dict[str, np.ndarray]:
        """Take the next datapoint. Return the array for the name of each placeholder, e.g. "image:0"."""
        if self._datapoints is None:
            self._reset_state()
        arrays = self._convert(next(self._datapoints))  # type: ignore[arg-type]
        if self._stream.stamp is not None:
            self._stream.stamp(arrays)
        return dict(zip(self._feed_names, arrays))

    def release(self) -> None:
        """Drop the iterator, which releases the resources of the DataFlow."""
        self._datapoints = None


class _FeedCallback(Callback):
    """Callback that feeds a datapoint in every run. All runs share one SessionRunArgs object, whose arrays are replaced."""

    def __init__(self, source: FeedInput) -> None:
        self._source = source
        self._args = tf.train.SessionRunArgs(fetches=[], feed_dict={})

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.train.SessionRunArgs:
        self._args.feed_dict.update(self._source.next_feeds())
        return self._args

    def _after_train(self) -> None:
        self._source.release()
        self._source.flow.close(self)


class _CountingFeedCallback(_FeedCallback):
    """The same callback, which also counts the datapoints of the runs that succeeded."""

    def _after_run(self, ctx: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues) -> None:
        self._source.flow.use_all()
