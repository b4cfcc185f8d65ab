"""Data through tf.data: a Dataset, or a DataFlow made into one."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, Iterator, Sequence

from ..compat import TF_VERSION, ensure_graph_mode, tensorflow
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..loop.callback import Callback
from ..loop.interrupt import interrupted
from ..utils.errors import type_error
from .base import FeedfreeInput
from .datapoint import DatapointConverter, iterate_named

__all__ = ["TFDatasetInput"]


class TFDatasetInput(FeedfreeInput):
    """
    Take the datapoints from a tf.data pipeline.

    Each tower takes its own element of one iterator. `reset_state` begins the data anew. For training the data should
    not end; when it does, training ends. The size is that of the DataFlow; the size of a Dataset is not known, so inference
    runs until the Dataset ends.

    Args:
        dataset: a `tf.data.Dataset` whose elements are a tensor, a tuple, or a dict keyed by input name; or a DataFlow, which
            is reset in `setup` and not repeated.

    Raises:
        TypeError: `dataset` is neither; in `setup`: a component has another dtype than the model's input.
        ValueError: in `setup`: another number of components, or a shape that cannot be the input's.
        Exception: in a run: whatever the DataFlow raises, with its name in the text.

    Note: a DataFlow is read in a thread of its own, so that Ctrl-C ends a training that waits for it. TensorFlow cannot cancel
    a run that waits for a `tf.data.Dataset`, least of all for Python code in one: there Ctrl-C takes effect when the next element
    comes, and a second Ctrl-C closes the session.

    tensorpack: same; there one-component datasets do not work, and none on TF 2.
    """

    def __init__(self, dataset: Any) -> None:
        if not isinstance(dataset, (DataFlow, tensorflow.compat.v2.data.Dataset)):
            raise type_error("TFDatasetInput", "a tf.data.Dataset or a DataFlow", dataset)
        self._source = dataset
        self._error: BaseException | None = None
        self._reader: _Reader | None = None

    @property
    def error(self) -> BaseException | None:
        """What the DataFlow raised since the last `reset_state`."""
        return self._error

    def _setup(self, input_signature: Sequence[Any]) -> None:
        self._signature = list(input_signature)
        with self.cached_name_scope(), tf.device("/cpu:0"):
            dataset = self._source
            if isinstance(dataset, DataFlow):
                dataset.reset_state()
                dataset = self._dataset_of(dataset)
            self._check(dataset)
            self._iterator = tf.data.make_initializable_iterator(dataset)

    def _dataset_of(self, dataflow: DataFlow) -> Any:
        convert = DatapointConverter("TFDatasetInput", self._signature)

        def generate() -> Iterator[Any]:  # pragma: no cover (TensorFlow's threads run it, unseen by coverage)
            self._stop_reading()
            self._reader = _Reader(map(convert, iterate_named(dataflow, "TFDatasetInput", dataflow)))
            try:
                yield from map(tuple, self._reader)
            except DataFlowTerminated:
                return
            except GeneratorExit:  # the dataset lets go of this generator
                raise
            except BaseException as error:  # kept, and raised by the session's next run
                self._error = error
                raise

        return _from_generator(generate, self._signature)

    def _stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.stop()
            self._reader = None

    @staticmethod
    def dataflow_to_dataset(df: DataFlow, types: Sequence[Any]) -> Any:
        """
        Make a `tf.data.Dataset` of a DataFlow, and reset the DataFlow.

        Args:
            df: yields lists or tuples.
            types: a list of `tf.DType`, one for each component.

        Returns:
            A dataset of tuples with unknown shapes; to be used in the same process.

        tensorpack: same.
        """
        ensure_graph_mode()
        df.reset_state()
        specs = [tensorflow.TensorSpec(None, dtype, f"component{i}") for i, dtype in enumerate(types)]
        return _from_generator(lambda: (tuple(datapoint) for datapoint in df), specs)

    def _check(self, dataset: Any) -> None:
        dtypes = self._in_order(tf.data.get_output_types(dataset))
        shapes = self._in_order(tf.data.get_output_shapes(dataset))
        names = [spec.name for spec in self._signature]
        if len(dtypes) != len(names):
            raise ValueError(
                f"TFDatasetInput: the dataset has {len(dtypes)} components, the model takes {len(names)} "
                f"({', '.join(names)})."
            )
        for index, (spec, dtype, shape) in enumerate(zip(self._signature, dtypes, shapes)):
            message = (
                f"TFDatasetInput: component {index} '{spec.name}' is {dtype.name} {shape}, wanted "
                f"{spec.dtype.name} {tf.TensorShape(spec.shape)}."
            )
            if dtype != spec.dtype:
                raise TypeError(
                    f"{message} Convert it: dataset.map(... tf.cast(x, tf.{spec.dtype.name}) ...)."
                )
            if not tf.TensorShape(shape).is_compatible_with(spec.shape):
                raise ValueError(f"{message} Is the dataset batched as the model wants it?")

    def _in_order(self, element: Any) -> list[Any]:
        """Bring what a dataset has for each component into the order of the signature."""
        names = [spec.name for spec in self._signature]
        if isinstance(element, dict) and set(element) == set(names):
            return [element[name] for name in names]
        return tf.nest.flatten(element)

    def _get_input_tensors(self) -> list[Any]:
        with self.cached_name_scope(), tf.device("/cpu:0"):
            tensors = self._in_order(self._iterator.get_next())
        for tensor, spec in zip(tensors, self._signature):
            tensor.set_shape(spec.shape)
        return tensors

    def _reset_state(self) -> None:
        session = tf.get_default_session()
        if session is None:
            raise RuntimeError(
                "TFDatasetInput.reset_state: there is no default session. Call it under `with sess.as_default():`."
            )
        self._error = None
        session.run(self._iterator.initializer)

    def _size(self) -> int:
        return len(self._source) if isinstance(self._source, DataFlow) else super()._size()

    def _get_callbacks(self) -> list[Callback]:
        return [_DatasetCallback(self)] if isinstance(self._source, DataFlow) else []


class _DatasetCallback(Callback):
    """Knows what went wrong in the DataFlow, and stops reading it."""

    def __init__(self, source: TFDatasetInput) -> None:
        self._source = source

    def background_error(self) -> BaseException | None:
        return self._source.error

    def interrupt(self) -> None:
        if self._source._reader is not None:
            self._source._reader.interrupt()

    def _after_train(self) -> None:
        self._source._stop_reading()


_STOPPED = StopIteration()  # the answer of a reader that was stopped


class _Reader(Iterator[Any]):
    """
    An iterator whose items are read in a thread of its own, each when it is asked for.

    TensorFlow cannot cancel a run that waits for a Python generator. The generator waits here instead, where `interrupt`
    reaches it.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._requests: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._is_asked = False
        threading.Thread(target=self._read, args=(items,), name="TFDatasetInput", daemon=True).start()

    def __next__(self) -> Any:
        self._is_asked = True
        self._requests.put(True)
        item, error = self._answers.get()
        self._is_asked = False
        if error is _STOPPED:
            self._answers.put((None, _STOPPED))  # for the next request
            raise StopIteration
        if error is not None:
            raise error
        return item

    def stop(self) -> None:
        """End the items, also for a request that waits or comes later: TensorFlow prefetches. The thread ends after its present item."""
        self._requests.put(False)
        self._answers.put((None, _STOPPED))

    def interrupt(self) -> None:
        """Make a request that waits fail; called in another thread."""
        if self._is_asked:
            self._answers.put((None, interrupted("TFDatasetInput")))

    def _read(self, items: Iterator[Any]) -> None:
        while self._requests.get():
            try:
                self._answers.put((next(items), None))
            except BaseException as error:  # noqa: BLE001 (raised where the item was asked for)
                self._answers.put((None, error))


def _from_generator(generate: Any, signature: Sequence[Any]) -> Any:
    if TF_VERSION >= (2, 4):  # where the two separate arguments are deprecated
        specs = tuple(tensorflow.TensorSpec(spec.shape, spec.dtype) for spec in signature)
        return tf.data.Dataset.from_generator(generate, output_signature=specs)
    dtypes = tuple(spec.dtype for spec in signature)
    shapes = tuple(tf.TensorShape(spec.shape) for spec in signature)
    return tf.data.Dataset.from_generator(generate, dtypes, shapes)
