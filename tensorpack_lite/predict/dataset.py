"""Prediction of a whole DataFlow, in this process or in several processes."""

from __future__ import annotations

import os
import traceback
from abc import ABC, abstractmethod
from multiprocessing import connection, get_all_start_methods, get_context
from typing import Any, Iterator, TypeVar

from ..dataflow.base import DataFlow, length_or_none
from ..dataflow.raw import how_to_wrap
from ..utils.checks import check_at_least, check_type
from ..utils.concurrency import enable_death_signal, ensure_proc_terminate, start_proc_mask_signal
from ..utils.errors import rebuild_error
from ..utils.gpu import get_num_gpu
from ..utils.ordering import OrderedContainer
from ..utils.utils import get_tqdm
from .base import OfflinePredictor
from .config import PredictConfig

T = TypeVar("T")


class DatasetPredictorBase(ABC):
    """
    Interface of predictors that predict all datapoints of a DataFlow.

    Args:
        config: configuration of the predictor.
        dataset: the DataFlow; its components are those of `config.input_names`.

    Attributes:
        config, dataset: as given.

    Raises:
        TypeError: an argument has the wrong type.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        name = type(self).__name__
        check_type(f"{name}: config", config, PredictConfig)
        check_type(f"{name}: dataset", dataset, DataFlow, advice=how_to_wrap(dataset))
        self.config = config
        self.dataset = dataset
        self._is_reset = False

    @abstractmethod
    def get_result(self) -> Iterator[Any]:
        """
        Predict one pass over the DataFlow.

        Yields:
            For each datapoint, a list of outputs; `(datapoint, outputs)` if `config.return_input`.
        """

    def get_all_result(self) -> list[Any]:
        """Return all results of `get_result` as a list."""
        return list(self.get_result())

    def _datapoints(self) -> Iterator[Any]:
        """Return an iterator over the DataFlow, which is reset before its first pass."""
        if not self._is_reset:
            self.dataset.reset_state()
            self._is_reset = True
        return iter(self.dataset)

    def _progress_bar(self) -> Any:
        return get_tqdm(total=length_or_none(self.dataset), desc=type(self).__name__)


class SimpleDatasetPredictor(DatasetPredictorBase):
    """
    Predictor for all datapoints of a DataFlow, one after the other, in this process.

    Args:
        config: configuration of the predictor.
        dataset: the DataFlow; its components are those of `config.input_names`.

    Attributes:
        predictor: the `OfflinePredictor`.

    Example:
        >>> for (probability,) in SimpleDatasetPredictor(config, df).get_result():
        ...     ...
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        super().__init__(config, dataset)
        self.predictor = OfflinePredictor(config)

    def get_result(self) -> Iterator[Any]:
        """Predict one pass over the DataFlow. Shows a progress bar."""
        with self._progress_bar() as bar:
            for dp in self._datapoints():
                yield self.predictor(*dp)
                bar.update()


class MultiProcessDatasetPredictor(DatasetPredictorBase):
    """
    Predictor for all datapoints of a DataFlow in several processes, each with an OfflinePredictor.

    The DataFlow is read in this process. A process gets its next datapoint after it has returned the previous one.

    Args:
        config: configuration of the predictors.
        dataset: the DataFlow; its components are those of `config.input_names`.
        nr_proc: the number of processes, >= 1.
        use_gpu: whether each process uses one GPU, out of `$CUDA_VISIBLE_DEVICES` if set. False hides all GPUs.
        ordered: yield in the order of the DataFlow, not in the order in which outputs arrive.

    Raises:
        ValueError: `nr_proc` is below 1, or above the number of GPUs.
        RuntimeError: this system cannot fork. In `get_result`: a process died; the message has its pid and exit code.
        Exception: in `get_result`: prediction failed in a process.

    Note: processes are forked in `get_result`, because models are functions, which cannot be pickled, and end with the
    iteration. TensorFlow does not work in processes that are forked after a session has run, so use this
    class in scripts that only predict.
    """

    def __init__(
        self,
        config: PredictConfig,
        dataset: DataFlow,
        nr_proc: int,
        use_gpu: bool = True,
        ordered: bool = True,
    ) -> None:
        super().__init__(config, dataset)
        check_at_least("MultiProcessDatasetPredictor: nr_proc", nr_proc, 1)
        if "fork" not in get_all_start_methods():
            raise RuntimeError(
                "MultiProcessDatasetPredictor: this system cannot fork processes. Use SimpleDatasetPredictor."
            )
        self._gpus = _choose_gpus(nr_proc) if use_gpu else [""] * nr_proc
        self._ordered = ordered

    def get_result(self) -> Iterator[Any]:
        """Predict one pass over the DataFlow. Shows a progress bar. The processes end with the iteration."""
        workers: list[_Worker] = []
        try:
            workers += [_Worker(self.config, gpu, len(self._gpus)) for gpu in self._gpus]
            results = self._unordered(workers)
            with self._progress_bar() as bar:
                for result in _in_order(results) if self._ordered else (value for _, value in results):
                    yield result
                    bar.update()
        finally:
            for worker in workers:
                worker.end()

    def _unordered(self, workers: list[_Worker]) -> Iterator[tuple[int, Any]]:
        idle = list(workers)
        busy: list[_Worker] = []

        def wait() -> Iterator[tuple[int, Any]]:
            """Wait until at least one worker has a result or has died."""
            ready = connection.wait([worker.connection for worker in busy])
            for worker in [candidate for candidate in busy if candidate.connection in ready]:
                busy.remove(worker)
                idle.append(worker)
                yield worker.result()

        for task in enumerate(self._datapoints()):
            if not idle:
                yield from wait()
            worker = idle.pop()
            worker.give(task)
            busy.append(worker)
        while busy:
            yield from wait()


class _Worker:
    """A child process. It has one task at a time, so that neither end waits for the other with a full pipe."""

    def __init__(self, config: PredictConfig, gpu: str, num_processes: int) -> None:
        context = get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_predict_all, args=(config, gpu, num_processes, theirs), daemon=True)
        ensure_proc_terminate(self.process)
        start_proc_mask_signal(self.process)
        theirs.close()  # so that the death of the process closes the pipe

    def give(self, task: tuple[int, object]) -> None:
        try:
            self.connection.send(task)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._death() from error

    def result(self) -> tuple[int, Any]:
        try:
            index, value, error, trace = self.connection.recv()
        except (EOFError, ConnectionResetError) as end:
            raise self._death() from end
        if error is not None:
            cause = RuntimeError(f"In process {self.process.pid}:\n{trace}")
            raise rebuild_error(
                error, f"MultiProcessDatasetPredictor: datapoint {index} failed in process {self.process.pid}"
            ) from cause
        return index, value

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()  # nothing can be lost
        self.process.join()
        self.connection.close()

    def _death(self) -> RuntimeError:
        self.process.join(5)
        return RuntimeError(
            f"MultiProcessDatasetPredictor: process {self.process.pid} died with exit code {self.process.exitcode} "
            "(negative: killed by that signal). Check whether it ran out of memory."
        )


def _predict_all(config: PredictConfig, gpu: str, num_processes: int, pipe: connection.Connection) -> None:
    """Run in a child process: answer each (index, datapoint) with (index, result, error, traceback)."""
    enable_death_signal(_warn=False)
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    config._share_cores(num_processes)
    predictor = None
    while True:
        index, dp = pipe.recv()
        try:
            predictor = predictor or OfflinePredictor(config)
            answer: tuple[Any, ...] = (index, predictor(*dp), None, "")
        except Exception as error:  # noqa: BLE001 (the parent raises it)
            answer = (index, None, _sendable(error), traceback.format_exc())
        pipe.send(answer)


def _sendable(error: Exception) -> Exception:
    """Return an error that can be pickled. Errors of TensorFlow contain operations, so only their text is sent."""
    if type(error).__module__ == "builtins":
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _in_order(results: Iterator[tuple[int, T]]) -> Iterator[T]:
    waiting = OrderedContainer()
    for index, value in results:
        waiting.put(index, value)
        while waiting.has_next():
            yield waiting.get()[1]


def _choose_gpus(number: int) -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = [str(i) for i in range(get_num_gpu())] if visible is None else [x for x in visible.split(",") if x]
    if len(gpus) < number:
        raise ValueError(
            f"MultiProcessDatasetPredictor: nr_proc is too large (expected at most {len(gpus)}, the number of GPUs, got "
            f"{number}). Use fewer processes or use_gpu=False."
        )
    return gpus[:number]
