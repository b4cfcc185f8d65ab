"""Prediction for many callers at once, in threads that combine datapoints into batches."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, Callable, Deque, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..compat.session import require_own_process
from ..utils.checks import check_at_least, check_type
from ..utils.handoff import HandoffQueue
from .base import AsyncPredictorBase, OnlinePredictor

_WAITING_PER_PREDICTOR = 100


class MultiThreadAsyncPredictor(AsyncPredictorBase):
    """
    Predictor that takes single datapoints from many threads and predicts them in batches, in one thread per predictor.

    A thread waits for one datapoint, then adds those that already wait, up to `batch_size`. It stacks them along a new
    first axis, and splits the outputs along their first axis.

    Args:
        predictors: `OnlinePredictor` objects with `return_input=False`, whose inputs and outputs have a batch axis.
        batch_size: maximum number of datapoints in a batch, >= 1.

    Raises:
        TypeError: an object in `predictors` is not an OnlinePredictor.
        ValueError: `predictors` is empty, a predictor has `return_input=True`, or `batch_size` is below 1.
        RuntimeError: `start` finds no session; `put_task` is called after `stop`; a call comes before `start`.

    Example:
        >>> predictor = MultiThreadAsyncPredictor([trainer.get_predictor(["image"], ["probability"])], batch_size=16)
        >>> predictor.start()
        >>> future = predictor.put_task([image])                # image [28, 28]: without batch axis
        >>> (probability,) = future.result()

    Note: if a batch fails, its datapoints are predicted one by one, and `future.result()` raises the error only for the
    datapoints that cause it. If the session is closed, the threads end and the futures are cancelled.
    """

    def __init__(self, predictors: Sequence[OnlinePredictor], batch_size: int = 5) -> None:
        self._predictors = list(predictors)
        if not self._predictors:
            raise ValueError("MultiThreadAsyncPredictor: predictors is empty (expected at least one predictor).")
        for predictor in self._predictors:
            check_type("MultiThreadAsyncPredictor: a predictor", predictor, OnlinePredictor)
            if predictor.return_input:
                raise ValueError(
                    "MultiThreadAsyncPredictor: a predictor has return_input=True. Use return_input=False: the caller "
                    "already has the input."
                )
        self._batch_size = check_at_least("MultiThreadAsyncPredictor: batch_size", batch_size, 1)
        self._tasks: HandoffQueue[_Task] = HandoffQueue(
            _WAITING_PER_PREDICTOR * len(self._predictors), remove=self._remove_batch
        )
        name = "MultiThreadAsyncPredictor"
        self._threads = [
            threading.Thread(target=self._work, args=(predictor,), name=name, daemon=True)
            for predictor in self._predictors
        ]
        self._num_working = len(self._threads)
        self._lock = threading.Lock()
        self._is_started = False

    def start(self) -> None:
        """Start the threads. Predictors without a session use the default session of the caller."""
        for predictor in self._predictors:
            if predictor.sess is None:
                predictor.sess = tf.get_default_session()
            if predictor.sess is None:
                raise RuntimeError(
                    "MultiThreadAsyncPredictor.start: a predictor has no session. Call start() under "
                    "`with sess.as_default():`; in a callback, from `_before_train` on."
                )
        for thread in self._threads:
            thread.start()
        self._is_started = True

    def put_task(self, dp: Sequence[object], callback: Callable[[Future[Any]], None] | None = None) -> Future[Any]:
        """
        Submit a datapoint. Wait while 100 datapoints per predictor are waiting.

        Args:
            dp: its components, without batch axis.
            callback: called with the future when the future is done, in one of the threads. If this method raises
                RuntimeError, it is called with the cancelled future.

        Returns:
            A future of the list of outputs, without batch axis.
        """
        require_own_process("MultiThreadAsyncPredictor.put_task")
        task = _Task(dp)
        if callback is not None:
            task.future.add_done_callback(callback)
        # even if the queue has ended, a thread may have taken the task just before
        if not self._tasks.put([task]) and task.future.cancel():
            raise RuntimeError(
                "MultiThreadAsyncPredictor.put_task: the predictor was stopped, or its session was closed."
            )
        return task.future

    def stop(self) -> None:
        """Cancel waiting datapoints, and wait until the threads have finished their batches. Further calls do nothing."""
        self._cancel_waiting()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _do_call(self, dp: Sequence[object]) -> Any:
        if not self._is_started:
            raise RuntimeError("MultiThreadAsyncPredictor: the worker threads are not running. Call start() first.")
        return super()._do_call(dp)

    def _cancel_waiting(self) -> None:
        for task in self._tasks.stop():
            task.cancel()

    def _remove_batch(self, tasks: Deque[_Task]) -> list[_Task]:
        return [tasks.popleft() for _ in range(min(len(tasks), self._batch_size))]

    def _work(self, predictor: OnlinePredictor) -> None:
        try:
            while True:
                tasks = self._tasks.take()
                if not tasks or not _predict(predictor, tasks):
                    return
        finally:
            with self._lock:
                self._num_working -= 1
                is_last = self._num_working == 0
            if is_last:
                self._cancel_waiting()


class _Task:
    """A datapoint, and the future of its outputs."""

    def __init__(self, dp: Sequence[object]) -> None:
        self.dp = dp
        self.future: Future[Any] = Future()

    def cancel(self) -> None:
        """Cancel the future, and wake whoever waits for it by `concurrent.futures.wait`."""
        if self.future.cancel():
            self.future.set_running_or_notify_cancel()


def _predict(predictor: OnlinePredictor, tasks: list[_Task]) -> bool:
    """Predict a batch. Return False if the session was closed."""
    try:
        outputs = _outputs_of(predictor, tasks)
    except tf.errors.CancelledError:
        for task in tasks:
            task.cancel()
        return False
    except Exception as error:  # noqa: BLE001 (the future raises it)
        if len(tasks) > 1:
            may_continue = [_predict(predictor, [task]) for task in tasks]
            return all(may_continue)
        if tasks[0].future.set_running_or_notify_cancel():
            tasks[0].future.set_exception(error)
        return True
    for index, task in enumerate(tasks):
        if task.future.set_running_or_notify_cancel():
            task.future.set_result([output[index] for output in outputs])
    return True


def _outputs_of(predictor: OnlinePredictor, tasks: list[_Task]) -> list[np.ndarray]:
    num_components = len(predictor.input_tensors)
    for task in tasks:
        if len(task.dp) != num_components:
            raise ValueError(
                "MultiThreadAsyncPredictor: the number of components of a datapoint is wrong (expected "
                f"{num_components}, got {len(task.dp)})."
            )
    batch = [np.asarray([task.dp[k] for task in tasks]) for k in range(num_components)]
    outputs = predictor(*batch)
    for output in outputs:
        if np.shape(output)[:1] != (len(tasks),):
            raise ValueError(
                f"MultiThreadAsyncPredictor: an output cannot be split (expected shape [{len(tasks)}, ...], one row for each "
                f"datapoint of the batch, got {np.shape(output)}). Choose outputs with a batch axis."
            )
    return list(outputs)
