"""Input that reads a tf.data pipeline, or a DataFlow converted to one."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..compat import TF_VERSION, ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..loop.callback import Callback
from ..loop.signals.interruptible import error_of_interrupted_run
from ..utils.checks import check_type
from ..utils.handoff import HandoffQueue
from .base import FeedfreeInput
from .datapoint import DatapointConverter, check_num_inputs, iterate_named
from .exact.data_position import DatasetPosition
from .stream import Stream

_NUM_AHEAD = 2
_JOIN_SECONDS = 2.0  # how long the end of training waits for a DataFlow
_MAX_AHEAD = 4096  # datapoints that tf.data may have prefetched


class TFDatasetInput(FeedfreeInput):
    """
    InputSource that takes the datapoints from a tf.data pipeline.

    A component may be a `tf.SparseTensor`, which the model gets as such. Each tower takes a different element of one
    iterator. `reset_state` restarts the data. When the data ends, training ends, so repeat it for training. The size
    is that of the DataFlow. The size of a Dataset is unknown, so inference runs until the Dataset ends.

    Args:
        dataset: a `tf.data.Dataset` whose elements are a tensor, a tuple, or a dict keyed by input name; or a
            DataFlow, which is reset in `setup` and not repeated.

    Raises:
        TypeError: `dataset` is neither. In `setup`: a component has another dtype than the model's input.
        ValueError: in `setup`: the number of components or a shape is wrong.
        Exception: in a run: the DataFlow raised it. The message names the DataFlow.

    Note: a DataFlow is read in a thread, so Ctrl-C ends training that waits for it. TensorFlow cannot cancel
    a run that waits for a `tf.data.Dataset`: Ctrl-C takes effect when the next element arrives. A second
    Ctrl-C closes the session; on TF 2.15 it aborts the process.
    """

    def __init__(self, dataset: tf.data.Dataset | DataFlow) -> None:
        types = (DataFlow, tensorflow.compat.v2.data.Dataset)
        check_type("TFDatasetInput: dataset", dataset, types, "a tf.data.Dataset or a DataFlow")
        self._source = dataset
        self._error: BaseException | None = None
        self._reader: _Reader | None = None
        self._stream: Stream
        self._dataset_position: DatasetPosition | None = None  # of a Dataset
        self._was_reset = False

    @property
    def error(self) -> BaseException | None:
        """The error of the DataFlow since the last `reset_state`, or None."""
        return self._error

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._signature = list(input_signature)
        with self.cached_name_scope(), tf.device("/cpu:0"):
            dataset = self._source
            if isinstance(dataset, DataFlow):
                self._stream = self.flow.open(dataset, dataset, _MAX_AHEAD)
                self._stream.reset()
                dataset = self._dataset_of(dataset)
            else:
                self._check(dataset)
                self._dataset_position = self.flow.open_dataset()
                dataset = dataset if self._dataset_position is None else self._from_position(dataset)
            self._iterator = tf.data.make_initializable_iterator(dataset)

    def _dataset_of(self, dataflow: DataFlow) -> tf.data.Dataset:
        who = self.flow.name_input("TFDatasetInput")
        stream, convert = self._stream, DatapointConverter(who, self._signature)
        self.flow.converter = convert

        def to_element(datapoint: Any) -> tuple[Any, ...]:
            arrays = convert(datapoint)
            if stream.stamp is not None:
                stream.stamp(arrays)
            return tuple(arrays)

        def generate() -> Iterator[tuple[Any, ...]]:  # pragma: no cover (runs in threads of TensorFlow)
            self._stop_reading()
            datapoints = iterate_named(stream, who, dataflow)
            self._reader = _Reader(map(to_element, datapoints))
            try:
                yield from self._reader
            except DataFlowTerminated:
                return
            except GeneratorExit:  # the dataset drops this generator
                raise
            except BaseException as error:  # the session's next run raises it
                self._error = error
                raise

        return _from_generator(generate, self._signature)

    def _from_position(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Return the elements from a position on, which is fed to the initializer of the iterator."""
        self._skip = tf.placeholder_with_default(np.int64(0), [], name="num_to_skip")
        return dataset.skip(self._skip)

    def _stop_reading(self, wait: float | None = 0) -> None:
        if self._reader is not None:
            self._reader.stop(wait)
            self._reader = None

    @staticmethod
    def dataflow_to_dataset(df: DataFlow, types: Sequence[tf.DType]) -> tf.data.Dataset:
        """
        Reset a DataFlow and convert it to a `tf.data.Dataset`.

        Args:
            df: a DataFlow of lists or tuples.
            types: a list of `tf.DType`, one for each component.

        Returns:
            A dataset of tuples with unknown shapes. It works only in the same process.
        """
        ensure_graph_mode()
        df.reset_state()
        specs = [tensorflow.TensorSpec(None, dtype, f"component{i}") for i, dtype in enumerate(types)]
        return _from_generator(lambda: (tuple(datapoint) for datapoint in df), specs)

    def _check(self, dataset: tf.data.Dataset) -> None:
        dtypes = self._in_order(tf.data.get_output_types(dataset))
        shapes = self._in_order(tf.data.get_output_shapes(dataset))
        check_num_inputs("TFDatasetInput", "the number of components in the dataset", dtypes, self._signature)
        for index, (spec, dtype, shape) in enumerate(zip(self._signature, dtypes, shapes)):
            where = f"TFDatasetInput: component {index} '{spec.name}'"
            if dtype != spec.dtype:
                raise TypeError(
                    f"{where} has the wrong dtype (expected {spec.dtype.name}, got {dtype.name}). Convert it: "
                    f"dataset.map(... tf.cast(x, tf.{spec.dtype.name}) ...)."
                )
            if not tf.TensorShape(shape).is_compatible_with(spec.shape):
                raise ValueError(
                    f"{where} has the wrong shape (expected {tf.TensorShape(spec.shape)}, got {shape}). Check how the "
                    "dataset is batched."
                )

    def _in_order(self, element: object) -> list[Any]:
        """Return the components of a dataset's element, or of its dtypes or shapes, in the order of the signature."""
        names = [spec.name for spec in self._signature]
        if isinstance(element, dict) and set(element) == set(names):
            return [element[name] for name in names]
        return tf.nest.flatten(element)

    def _get_input_tensors(self) -> list[tf.Tensor]:
        with self.cached_name_scope(), tf.device("/cpu:0"), self.flow.taking():
            element = self._iterator.get_next()
        tensors = self._in_order(element)
        for tensor, spec in zip(tensors, self._signature):
            if isinstance(tensor, tf.Tensor):  # a SparseTensor of TensorFlow 1.15 has the dataset's shape
                tensor.set_shape(spec.shape)
        return tensors

    def _reset_state(self) -> None:
        session = tf.get_default_session()
        if session is None:
            raise RuntimeError(
                "TFDatasetInput.reset_state: there is no default session. Call it under `with sess.as_default():`."
            )
        self._error = None
        if self._was_reset and self.flow.is_counted:  # for another round of inference
            self._stop_reading(wait=None)
            self.flow.leave_pass()
        self._was_reset = True
        feeds = {self._skip: self._dataset_position.start} if self._dataset_position is not None else None
        session.run(self._iterator.initializer, feeds)

    def _size(self) -> int:
        return len(self._source) if isinstance(self._source, DataFlow) else super()._size()

    def _get_callbacks(self) -> list[Callback]:
        return [_DatasetCallback(self)] if isinstance(self._source, DataFlow) else []


class _DatasetCallback(Callback):
    """Callback that reports the error of the DataFlow, and stops reading it."""

    def __init__(self, source: TFDatasetInput) -> None:
        self._source = source

    def background_error(self) -> BaseException | None:
        return self._source.error

    def interrupt(self) -> None:
        if self._source._reader is not None:
            self._source._reader.interrupt()

    def _after_train(self) -> None:
        self._source._stop_reading(wait=_JOIN_SECONDS)
        self._source.flow.close(self)


class _Reader(Iterator[Any]):
    """
    Iterator that reads a few items ahead in a thread.

    TensorFlow cannot cancel a run that waits for a Python generator, but the generator waits for this iterator, and
    `interrupt` ends that wait.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._items: HandoffQueue[Any] = HandoffQueue(_NUM_AHEAD)
        self._is_asked = False
        self._thread = threading.Thread(target=self._read, args=(items,), name="TFDatasetInput", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        self._is_asked = True
        taken = self._items.take()
        self._is_asked = False
        if taken:
            return taken[0]
        raise self._items.error or StopIteration

    def stop(self, wait: float | None) -> None:
        """End the iteration, and wait at most some seconds, or without limit, for the thread. TensorFlow may still prefetch."""
        self._items.stop()
        self._thread.join(wait)

    def interrupt(self) -> None:
        """Make a waiting request fail, from another thread."""
        if self._is_asked:
            self._items.stop(error_of_interrupted_run("TFDatasetInput"))

    def _read(self, items: Iterator[Any]) -> None:
        try:
            for item in items:
                if not self._items.put([item]):
                    return
            self._items.end()
        except BaseException as error:  # noqa: BLE001 (`__next__` raises it)
            self._items.end(error)


def _from_generator(
    generate: Callable[[], Iterator[tuple[Any, ...]]], signature: Sequence[tf.TensorSpec]
) -> tf.data.Dataset:
    specs = tuple(tensorflow.TensorSpec(spec.shape, spec.dtype) for spec in signature)
    if TF_VERSION >= (2, 4):  # which deprecated separate dtypes and shapes
        return tf.data.Dataset.from_generator(generate, output_signature=specs)
    dtypes = tf.nest.map_structure(lambda spec: spec.dtype, specs)
    shapes = tf.nest.map_structure(lambda spec: spec.shape, specs)
    return tf.data.Dataset.from_generator(generate, dtypes, shapes)
