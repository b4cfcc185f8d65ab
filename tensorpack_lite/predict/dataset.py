"""Predicting a whole DataFlow, in this process or in several."""

from __future__ import annotations

import os
import traceback
from abc import ABC, abstractmethod
from multiprocessing import connection, get_all_start_methods, get_context
from typing import Any, Iterator

from ..dataflow.base import DataFlow
from ..utils.concurrency import enable_death_signal, ensure_proc_terminate, start_proc_mask_signal
from ..utils.errors import rebuild_error, type_error
from ..utils.gpu import get_num_gpu
from ..utils.ordering import OrderedContainer
from ..utils.utils import get_tqdm
from .base import OfflinePredictor
from .config import PredictConfig

__all__ = ["DatasetPredictorBase", "MultiProcessDatasetPredictor", "SimpleDatasetPredictor"]


class DatasetPredictorBase(ABC):
    """
    Predicts all datapoints of a DataFlow.

    Args:
        config: what the predictor is made of.
        dataset: the DataFlow, with the components that `config.input_names` asks for.

    Attributes:
        config, dataset: as given.

    Raises:
        TypeError: of another kind.

    tensorpack: same.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        if not isinstance(config, PredictConfig):
            raise type_error(type(self).__name__, "a PredictConfig", config)
        if not isinstance(dataset, DataFlow):
            raise type_error(type(self).__name__, "a DataFlow", dataset, "Wrap it: DataFromList(data).")
        self.config = config
        self.dataset = dataset
        self._is_reset = False

    @abstractmethod
    def get_result(self) -> Iterator[Any]:
        """
        Predict one pass over the DataFlow.

        Yields:
            For each datapoint what a predictor returns: a list of outputs; `(datapoint, outputs)` if `config.return_input`.
        """

    def get_all_result(self) -> list[Any]:
        """Give all of `get_result` as a list."""
        return list(self.get_result())

    def _datapoints(self) -> Iterator[Any]:
        """Iterate over the DataFlow once; it is reset before the first time."""
        if not self._is_reset:
            self.dataset.reset_state()
            self._is_reset = True
        return iter(self.dataset)

    def _size(self) -> int | None:
        try:
            return len(self.dataset)
        except NotImplementedError:
            return None


class SimpleDatasetPredictor(DatasetPredictorBase):
    """
    Predict all datapoints of a DataFlow, one after the other, in this process.

    Args:
        config: what the predictor is made of.
        dataset: the DataFlow, with the components that `config.input_names` asks for.

    Attributes:
        predictor: the `OfflinePredictor` that does the work.

    Example:
        >>> for (probability,) in SimpleDatasetPredictor(config, df).get_result():
        ...     ...

    tensorpack: same.
    """

    def __init__(self, config: PredictConfig, dataset: DataFlow) -> None:
        super().__init__(config, dataset)
        self.predictor = OfflinePredictor(config)

    def get_result(self) -> Iterator[Any]:
        """Predict one pass over the DataFlow; with a progress bar."""
        with get_tqdm(total=self._size(), desc=type(self).__name__) as bar:
            for dp in self._datapoints():
                yield self.predictor(*dp)
                bar.update()


class MultiProcessDatasetPredictor(DatasetPredictorBase):
    """
    Predict all datapoints of a DataFlow in several processes, each with a predictor of its own.

    The DataFlow is read in this process. A process gets its next datapoint when it has returned the last.

    Args:
        config: what the predictors are made of.
        dataset: the DataFlow, with the components that `config.input_names` asks for.
        nr_proc: the number of processes, >= 1.
        use_gpu: give each process a GPU of its own, one of `$CUDA_VISIBLE_DEVICES` if that is set; with False they see none.
        ordered: yield in the order of the DataFlow, instead of the order in which the outputs come.

    Raises:
        ValueError: `nr_proc` is below 1, or above the number of GPUs.
        RuntimeError: this system cannot fork; in `get_result`: a process has died; names its pid and exit code.
        Exception: in `get_result`, whatever prediction raised in a process.

    Process: forks `nr_proc` processes in `get_result`; they end with it.

    Note: they are forked, because models are functions and cannot be sent. A TensorFlow that has run a session does not
    survive that: use it in a script that only predicts.

    tensorpack: same; there the processes are started by the constructor, there is one pass, and an error hangs.
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
        if nr_proc < 1:
            raise ValueError(f"MultiProcessDatasetPredictor: nr_proc is {nr_proc}, wanted >= 1.")
        if "fork" not in get_all_start_methods():
            raise RuntimeError(
                "MultiProcessDatasetPredictor: this system cannot fork. Use SimpleDatasetPredictor."
            )
        self._gpus = _choose_gpus(nr_proc) if use_gpu else [""] * nr_proc
        self._ordered = ordered

    def get_result(self) -> Iterator[Any]:
        """Predict one pass over the DataFlow; with a progress bar. The processes end when the iteration does."""
        workers: list[_Worker] = []
        try:
            workers += [_Worker(self.config, gpu) for gpu in self._gpus]
            results = self._unordered(workers)
            with get_tqdm(total=self._size(), desc=type(self).__name__) as bar:
                for result in _in_order(results) if self._ordered else (value for _, value in results):
                    yield result
                    bar.update()
        finally:
            for worker in workers:
                worker.end()

    def _unordered(self, workers: list[_Worker]) -> Iterator[tuple[int, Any]]:
        idle = list(workers)
        busy: list[_Worker] = []
        for task in enumerate(self._datapoints()):
            if not idle:
                for worker in _wait(busy):
                    busy.remove(worker)
                    idle.append(worker)
                    yield worker.result()
            worker = idle.pop()
            worker.give(task)
            busy.append(worker)
        while busy:
            for worker in _wait(busy):
                busy.remove(worker)
                yield worker.result()


class _Worker:
    """One process, seen from this one. It has one task at a time, so that neither side ever waits with a full pipe."""

    def __init__(self, config: PredictConfig, gpu: str) -> None:
        context = get_context("fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_predict_all, args=(config, gpu, theirs), daemon=True)
        ensure_proc_terminate(self.process)
        start_proc_mask_signal(self.process)
        theirs.close()  # so that only the process has it, and its death is seen at this end

    def give(self, task: tuple[int, Any]) -> None:
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
            self.process.kill()  # it holds nothing that could be lost
        self.process.join()
        self.connection.close()

    def _death(self) -> RuntimeError:
        self.process.join(5)
        return RuntimeError(
            f"MultiProcessDatasetPredictor: process {self.process.pid} died with exit code {self.process.exitcode} "
            "(negative: killed by that signal). Was there too little memory?"
        )


def _wait(workers: list[_Worker]) -> list[_Worker]:
    """Wait until some of the workers have a result, or have died."""
    ready = connection.wait([worker.connection for worker in workers])
    return [worker for worker in workers if worker.connection in ready]


def _predict_all(config: PredictConfig, gpu: str, pipe: Any) -> None:
    """Answer each (index, datapoint) with (index, result, error, traceback); what the processes run."""
    enable_death_signal(_warn=False)
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    predictor = None
    while True:
        index, dp = pipe.recv()
        try:
            predictor = predictor or OfflinePredictor(config)
            answer: tuple[Any, ...] = (index, predictor(*dp), None, "")
        except Exception as error:  # noqa: BLE001 (sent to the process that asked, and raised there)
            answer = (index, None, _sendable(error), traceback.format_exc())
        pipe.send(answer)


def _sendable(error: Exception) -> Exception:
    """Errors of TensorFlow hold operations, which cannot be sent: only their text is."""
    if type(error).__module__ == "builtins":
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _in_order(results: Iterator[tuple[int, Any]]) -> Iterator[Any]:
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
            f"MultiProcessDatasetPredictor: nr_proc is {number}, but there are {len(gpus)} GPUs. Use fewer processes, or "
            "use_gpu=False."
        )
    return gpus[:number]
