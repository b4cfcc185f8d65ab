"""Data through feeds: each run takes the next datapoint, in the main thread."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow
from ..dataflow.repeat import RepeatedData
from ..loop.callback import Callback, CallbackFactory
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..utils.errors import type_error
from .base import InputSource
from .datapoint import DatapointConverter, iterate_named
from .whole_passes import WholePasses

__all__ = ["FeedInput"]


class FeedInput(InputSource):
    """
    Feed the next datapoint of a DataFlow to the placeholders, at every run of the hooked session.

    Simple, and slow where the data is: the step waits for it. All towers get the same placeholders, so this is for one
    tower.

    Args:
        ds: the DataFlow. It must not be used elsewhere; it is reset when the callbacks are set up.
        infinite: begin anew at its end, True by default. With False, its end is a StopIteration out of the run, which in
            training is an error.

    Attributes:
        ds: as given.

    Raises:
        TypeError: `ds` is no DataFlow. In a run: a component's dtype does not fit.
        ValueError: in a run: the number or shape of components does not fit.
        Exception: in a run: whatever the DataFlow raises, with its name in the text.

    tensorpack: same; there the dtype is whatever NumPy makes of it, so float labels are truncated without a word.
    """

    def __init__(self, ds: DataFlow, infinite: bool = True) -> None:
        if not isinstance(ds, DataFlow):
            raise type_error("FeedInput", "a DataFlow", ds, "Wrap it: FeedInput(DataFromList(data)).")
        self.ds = ds
        self._infinite = infinite
        self._flow = RepeatedData(ds, -1) if infinite else ds
        self._datapoints: Iterator[Any] | None = None

    def require_exact_size(self) -> None:
        """If the data is repeated, make a pass with fewer datapoints than `len(ds)` an error."""
        if self._infinite:
            self._flow = RepeatedData(WholePasses(self.ds), -1)

    def _setup(self, input_signature: Sequence[Any]) -> None:
        self._placeholders = [build_or_reuse_placeholder(spec) for spec in input_signature]
        self._convert = DatapointConverter("FeedInput", input_signature)

    def _get_input_tensors(self) -> list[Any]:
        return self._placeholders

    def _get_callbacks(self) -> list[Callback]:
        return [_FeedCallback(self), CallbackFactory(setup_graph=lambda _: self.ds.reset_state())]

    def _reset_state(self) -> None:
        self._datapoints = iterate_named(self._flow, "FeedInput", self.ds)

    def _size(self) -> int:
        return len(self.ds)

    def next_feeds(self) -> dict[Any, Any]:
        """Take the next datapoint: the array for each placeholder."""
        if self._datapoints is None:
            self._reset_state()
        return dict(zip(self._placeholders, self._convert(next(self._datapoints))))  # type: ignore[arg-type]

    def release(self) -> None:
        """Let go of the iterator, and with it of whatever the DataFlow holds for it."""
        self._datapoints = None


class _FeedCallback(Callback):
    """Feeds in every run. It hands out one object all the time, and only changes the arrays in it."""

    def __init__(self, source: FeedInput) -> None:
        self._source = source
        self._args = tf.train.SessionRunArgs(fetches=[], feed_dict={})

    def _before_run(self, ctx: Any) -> Any:
        self._args.feed_dict.update(self._source.next_feeds())
        return self._args

    def _after_train(self) -> None:
        self._source.release()
