"""Input that reads a tf.data pipeline, or a DataFlow converted to one."""

from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..compat import TF_VERSION, ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..dataflow.exact.recording import ResumeReport, State
from ..loop.callback import Callback
from ..loop.interrupt import interrupted
from ..utils import logger
from ..utils.checks import check_type
from ..utils.handoff import HandoffQueue
from .base import FeedfreeInput
from .datapoint import DatapointConverter, check_num_inputs, iterate_named
from .tickets import Tickets

__all__ = ["TFDatasetInput"]

_NUM_AHEAD = 2


class TFDatasetInput(FeedfreeInput):
    """
    InputSource that takes the datapoints from a tf.data pipeline.

    A component may be a `tf.SparseTensor`, which the model gets as such. Each tower takes a different element of one iterator. `reset_state` restarts the data. When the data ends,
    training ends, so repeat it for training. The size is that of the DataFlow. The size of a Dataset is
    unknown, so inference runs until the Dataset ends.

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
        self._is_exact = False
        self._tickets: Tickets | None = None
        self._num_to_skip = 0  # elements of a Dataset
        self._was_reset = False
        self._convert: DatapointConverter | None = None

    @property
    def error(self) -> BaseException | None:
        """The error of the DataFlow since the last `reset_state`, or None."""
        return self._error

    @property
    def converter(self) -> DatapointConverter | None:
        """The converter of the datapoints of a DataFlow; None for a Dataset."""
        return self._convert

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._signature = list(input_signature)
        with self.cached_name_scope(), tf.device("/cpu:0"):
            dataset = self._source
            if isinstance(dataset, DataFlow):
                dataset.reset_state() if self._tickets is None else self._tickets.reset()
                dataset = self._dataset_of(dataset)
            else:
                self._check(dataset)
                dataset = self._numbered(dataset) if self._is_exact else dataset
            self._iterator = tf.data.make_initializable_iterator(dataset)

    def _dataset_of(self, dataflow: DataFlow) -> tf.data.Dataset:
        convert, tickets = DatapointConverter("TFDatasetInput", self._signature), self._tickets
        self._convert = convert

        def to_element(datapoint: Any) -> tuple:
            arrays = convert(datapoint)
            return tuple(arrays) if tickets is None else (np.int64(tickets.stamp(arrays)), tuple(arrays))

        def generate() -> Iterator[tuple]:  # pragma: no cover (runs in threads of TensorFlow)
            self._stop_reading()
            datapoints = iterate_named(tickets or dataflow, "TFDatasetInput", dataflow)
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

        return _from_generator(generate, self._signature, tickets is not None)

    def _numbered(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Return the elements with their tickets, from the saved position on."""
        self._skip = tf.placeholder_with_default(np.int64(0), [], name="num_to_skip")
        return dataset.enumerate(start=1).skip(self._skip)

    def _stop_reading(self, wait: bool = False) -> None:
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
        with self.cached_name_scope(), tf.device("/cpu:0"):
            element = self._iterator.get_next()
        if self._is_exact:
            self._ticket, element = element
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
        if self._is_exact and self._was_reset:  # for another round of inference
            self._leave_pass()
        self._was_reset = True
        feeds = {self._skip: self._num_to_skip} if self._num_to_skip else None
        session.run(self._iterator.initializer, feeds)

    def _leave_pass(self) -> None:
        self._num_to_skip = 0
        if self._tickets is not None:
            self._stop_reading(wait=True)
            self._tickets.leave_pass()

    def _begin_at(self, state: State | None, is_strict: bool) -> None:
        self._is_exact = True
        if isinstance(self._source, DataFlow):
            self._tickets = Tickets("TFDatasetInput", self._source, state, is_strict)
        elif state is not None:
            self._num_to_skip = state["used"]
            logger.info(
                f"TFDatasetInput: {self._num_to_skip} elements of the tf.data.Dataset are made again."
            )

    def _state_after(self, ticket: int | None) -> State:
        if self._tickets is None:
            return {"used": ticket or self._num_to_skip}
        return self._tickets.state(max(ticket or 0, self._tickets.start))

    def resume_report(self) -> list[ResumeReport]:
        """Return the report of the DataFlow. The elements of a Dataset are made again, all of them since the iterator began."""
        if isinstance(self._source, DataFlow):
            return self._source.resume_report()
        reason = "all its elements up to the position are made again, and not compared"
        return [ResumeReport("tf.data.Dataset", "replay", reason)]

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
        self._source._stop_reading()


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

    def stop(self, wait: bool = False) -> None:
        """End the iteration for waiting and later requests. TensorFlow may still prefetch."""
        self._items.stop()
        if wait:
            self._thread.join()

    def interrupt(self) -> None:
        """Make a waiting request fail, from another thread."""
        if self._is_asked:
            self._items.stop(interrupted("TFDatasetInput"))

    def _read(self, items: Iterator[Any]) -> None:
        try:
            for item in items:
                if not self._items.put([item]):
                    return
            self._items.end()
        except BaseException as error:  # noqa: BLE001 (`__next__` raises it)
            self._items.end(error)


def _from_generator(
    generate: Callable[[], Iterator[tuple]], signature: Sequence[tf.TensorSpec], has_tickets: bool = False
) -> tf.data.Dataset:
    specs: Any = tuple(tensorflow.TensorSpec(spec.shape, spec.dtype) for spec in signature)
    if has_tickets:
        specs = (tensorflow.TensorSpec([], tf.int64), specs)
    if TF_VERSION >= (2, 4):  # which deprecated separate dtypes and shapes
        return tf.data.Dataset.from_generator(generate, output_signature=specs)
    dtypes = tf.nest.map_structure(lambda spec: spec.dtype, specs)
    shapes = tf.nest.map_structure(lambda spec: spec.shape, specs)
    return tf.data.Dataset.from_generator(generate, dtypes, shapes)
