"""Predicting for many callers at once: threads that gather their datapoints into batches."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..utils.concurrency import StoppableThread
from ..utils.errors import type_error
from .base import AsyncPredictorBase, OnlinePredictor

__all__ = ["MultiThreadAsyncPredictor"]

_WAITING_PER_PREDICTOR = 100
_POLL_SECONDS = 0.2


class MultiThreadAsyncPredictor(AsyncPredictorBase):
    """
    Take single datapoints from many threads, and predict them in batches: one thread for each predictor.

    A thread takes one datapoint, and without waiting as many more as there are, up to `batch_size`. It stacks them along a
    new first dimension, and gives each its part of the outputs.

    Args:
        predictors: a list of `OnlinePredictor`, with `return_input=False`, whose inputs and outputs have a batch dimension.
        batch_size: the most datapoints in a batch, >= 1.

    Raises:
        TypeError: of another kind.
        ValueError: no predictor, one with `return_input=True`, or `batch_size` below 1.
        RuntimeError: in `start`: there is no session; in `put_task`: stopped; in a call: not started.

    Example:
        >>> predictor = MultiThreadAsyncPredictor([trainer.get_predictor(["image"], ["probability"])], batch_size=16)
        >>> predictor.start()
        >>> future = predictor.put_task([image])                # image [28, 28]: without batch dimension
        >>> (probability,) = future.result()

    Note: an error belongs to the datapoints that cause it: a batch that fails is predicted again, one by one, and
    `future.result()` raises what each of them raised. When a session is closed, its thread ends, and futures are cancelled.

    tensorpack: same; there an error ends the thread and leaves futures pending for ever, and there is no `stop`.
    """

    def __init__(self, predictors: Sequence[OnlinePredictor], batch_size: int = 5) -> None:
        self._predictors = list(predictors)
        if not self._predictors:
            raise ValueError("MultiThreadAsyncPredictor: there are no predictors, wanted at least one.")
        for predictor in self._predictors:
            if not isinstance(predictor, OnlinePredictor):
                raise type_error("MultiThreadAsyncPredictor", "a list of OnlinePredictor", predictor)
            if predictor.return_input:
                raise ValueError(
                    "MultiThreadAsyncPredictor: a predictor has return_input=True. Make it without: the caller has the input."
                )
        if batch_size < 1:
            raise ValueError(f"MultiThreadAsyncPredictor: batch_size is {batch_size}, wanted >= 1.")
        self._tasks: queue.Queue[_Task] = queue.Queue(maxsize=_WAITING_PER_PREDICTOR * len(self._predictors))
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._num_working = len(self._predictors)
        self._started = False
        self._threads = [
            _Worker(predictor, self._tasks, batch_size, self._stopped, self._one_has_ended)
            for predictor in self._predictors
        ]

    def start(self) -> None:
        """Start the threads. Predictors without a session work in the one that is the default now."""
        for predictor in self._predictors:
            if predictor.sess is None:
                predictor.sess = tf.get_default_session()
            if predictor.sess is None:
                raise RuntimeError(
                    "MultiThreadAsyncPredictor.start: a predictor has no session. Call it under `with sess.as_default():`, in "
                    "a callback e.g. from `_before_train` on."
                )
        for thread in self._threads:
            thread.start()
        self._started = True

    def put_task(self, dp: Sequence[Any], callback: Callable[[Any], None] | None = None) -> Future[Any]:
        """
        Hand in a datapoint; wait while very many are waiting already.

        Args:
            dp: its components, without batch dimension.
            callback: called with the future when it is done, in one of the threads.

        Returns:
            A future of the list of outputs, without batch dimension.
        """
        task = _Task(dp)
        if callback is not None:
            task.future.add_done_callback(callback)
        while not self._stopped.is_set():
            try:
                self._tasks.put(task, timeout=_POLL_SECONDS)
                break
            except queue.Full:
                pass
        else:
            raise RuntimeError("MultiThreadAsyncPredictor.put_task: it was stopped, or its session closed.")
        if self._stopped.is_set():  # in the meantime: perhaps nobody looks into the queue any more
            task.future.cancel()
        return task.future

    def stop(self) -> None:
        """Stop the threads after what they are doing, and cancel what waits. Doing it again changes nothing."""
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()
        self._cancel_waiting()

    def _do_call(self, dp: Sequence[Any]) -> Any:
        if not self._started:
            raise RuntimeError("MultiThreadAsyncPredictor: nobody works for it yet. Call start() first.")
        return super()._do_call(dp)

    def _one_has_ended(self) -> None:
        with self._lock:
            self._num_working -= 1
            is_last = self._num_working == 0
        if is_last:
            self._stopped.set()
            self._cancel_waiting()

    def _cancel_waiting(self) -> None:
        while True:
            try:
                self._tasks.get_nowait().future.cancel()
            except queue.Empty:
                return


class _Task:
    """A datapoint, and the future of its outputs."""

    def __init__(self, dp: Sequence[Any]) -> None:
        self.dp = dp
        self.future: Future[Any] = Future()

    def finish(self, outputs: list[Any]) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(outputs)

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class _Worker(StoppableThread):
    """The thread of one predictor."""

    def __init__(
        self,
        predictor: OnlinePredictor,
        tasks: queue.Queue[_Task],
        batch_size: int,
        stopped: threading.Event,
        when_ended: Callable[[], None],
    ) -> None:
        super().__init__(stopped)
        self.name = "MultiThreadAsyncPredictor"
        self.daemon = True
        self._predictor = predictor
        self._tasks = tasks
        self._batch_size = batch_size
        self._when_ended = when_ended

    def run(self) -> None:
        try:
            while not self.stopped():
                task = self.queue_get_stoppable(self._tasks)
                if task is None or not self._predict(self._gather(task)):
                    return
        finally:
            self._when_ended()

    def _gather(self, first: _Task) -> list[_Task]:
        tasks = [first]
        while len(tasks) < self._batch_size:
            try:
                tasks.append(self._tasks.get_nowait())
            except queue.Empty:
                break
        return tasks

    def _predict(self, tasks: list[_Task]) -> bool:
        """Predict a batch; returns False when the session was closed under it."""
        try:
            outputs = self._outputs_of(tasks)
        except tf.errors.CancelledError:
            for task in tasks:
                task.future.cancel()
            return False
        except Exception as error:  # noqa: BLE001 (whatever it is, it belongs to whoever waits for the future)
            if len(tasks) > 1:
                goes_on = [self._predict([task]) for task in tasks]  # each of them, also when one says no
                return all(goes_on)
            tasks[0].fail(error)
            return True
        for index, task in enumerate(tasks):
            task.finish([output[index] for output in outputs])
        return True

    def _outputs_of(self, tasks: list[_Task]) -> list[Any]:
        num_components = len(self._predictor.input_tensors)
        for task in tasks:
            if len(task.dp) != num_components:
                raise ValueError(
                    f"MultiThreadAsyncPredictor: got a datapoint of {len(task.dp)} components, wanted {num_components}."
                )
        batch = [np.asarray([task.dp[k] for task in tasks]) for k in range(num_components)]
        outputs = self._predictor(*batch)
        for output in outputs:
            if np.shape(output)[:1] != (len(tasks),):
                raise ValueError(
                    f"MultiThreadAsyncPredictor: an output has shape {np.shape(output)}, wanted {len(tasks)} as its first "
                    "dimension, one for each datapoint in the batch. Choose outputs that have a batch dimension."
                )
        return outputs
