"""
Two threads that fill a queue of the graph: one reads datapoints from a DataFlow, the other enqueues them.

The cost of enqueuing is that of calls into TensorFlow's runtime, which share the interpreter's lock with the training
loop. So the second thread takes the datapoints that already wait, and enqueues up to 16 small ones with one
call. It does not wait for more, because a DataFlow may yield its next datapoint only after training has used
the previous ones.
"""

from __future__ import annotations

import itertools
import threading
from functools import partial
from operator import itemgetter
from typing import Any, Callable, Deque, Sequence, Tuple

from ..compat import private
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..dataflow.meter import Meter
from ..dataflow.records import COUNT, TICKET
from ..dataflow.repeat import RepeatedData
from ..loop.signals.interruptible import error_of_interrupted_run
from ..utils import logger
from ..utils.concurrency import ShareSessionThread
from ..utils.handoff import HandoffQueue
from .datapoint import Arrays, DatapointConverter, iterate_named
from .stream import Stream

_CHUNKS = (16, 4, 1)
_SMALL_NBYTES = 1 << 16  # a datapoint up to this size is enqueued together with others
_MAX_WAITING_NBYTES = 64 * _SMALL_NBYTES  # between the threads; a datapoint counts at least _SMALL_NBYTES
_JOIN_SECONDS = 2.0

SizedArrays = Tuple[int, Arrays]


def take_chunk(waiting: Deque[SizedArrays], max_length: int = _CHUNKS[0]) -> list[SizedArrays]:
    """
    Remove the datapoints for one call from the left: 16, 4 or 1 small ones, or a large one.

    Args:
        waiting: datapoints with their sizes; at least one.
        max_length: maximum number of datapoints to remove.
    """
    num_small = 0
    for size, _ in itertools.islice(waiting, max_length):
        if size > _SMALL_NBYTES:
            break
        num_small += 1
    length = next((length for length in _CHUNKS if length <= num_small), 1)
    return [waiting.popleft() for _ in range(length)]


class EnqueueOps:
    """
    Operations that enqueue 1, 4 or 16 datapoints, in order, with one call.

    The first datapoint is fed to `placeholders`, the others to additional placeholders under `chunk/` in the
    current name scope. Each enqueue waits for the previous one. Large datapoints are enqueued one by one, so
    they need no additional placeholders.

    Args:
        queue: a TensorFlow queue.
        placeholders: a placeholder for each component.
    """

    def __init__(self, queue: tf.QueueBase, placeholders: Sequence[tf.Tensor]) -> None:
        self._placeholders = [list(placeholders)]
        self._ops = [queue.enqueue(self._placeholders[0])]
        self.close = queue.close(name="close")
        self.cancel = queue.close(cancel_pending_enqueues=True, name="cancel")
        # other queues may hold elements back, so that a dequeue blocks
        self.dequeue = queue.dequeue(name="make_room") if isinstance(queue, tf.FIFOQueue) else None
        self.size = queue.size(name="num_queued")
        if sum(map(_min_nbytes, placeholders)) <= _SMALL_NBYTES:
            with tf.name_scope("chunk"):
                for _ in range(1, _CHUNKS[0]):
                    self._add(queue)

    def _add(self, queue: tf.QueueBase) -> None:
        placeholders = [tf.placeholder(p.dtype, p.shape, name=p.op.name) for p in self._placeholders[0]]
        with tf.control_dependencies([self._ops[-1]]):
            self._ops.append(queue.enqueue(placeholders))
        self._placeholders.append(placeholders)

    @property
    def max_chunk(self) -> int:
        """Maximum number of datapoints in one call."""
        return len(self._ops)

    def make_call(self, session: tf.Session, size: int) -> Callable[..., object]:
        """Return a function that enqueues `size` datapoints. Its arguments are the arrays of all of them."""
        feeds = [placeholder for group in self._placeholders[:size] for placeholder in group]
        return private.make_callable(session, [], [self._ops[size - 1]], feeds)


class EnqueueThread(ShareSessionThread):
    """
    Thread of a QueueInput: repeats a DataFlow and puts its datapoints into a queue.

    It reads in a second thread. In both threads, the default session is that of the caller of `start()`. An
    error is stored in `error`, and the queue is closed after the last good datapoint, so training uses all of
    them before it raises the error.

    Args:
        who: the class of the input, for the names of the thread and its meters.
        dataflow: the user's DataFlow, already reset.
        signature: a list of `TensorSpec`, one for each component.
        ops: the operations that enqueue.
        stream: the datapoints to read. Default: those of the DataFlow, repeated.
        title: the input in messages, e.g. "InferenceRunner: QueueInput". Default: `who`.

    Attributes:
        error: the error of the DataFlow, of the check of a datapoint, or of the queue; None if there was none.
        interruption: the KeyboardInterrupt that `interrupt` caused, or None.
        converter: the `DatapointConverter` of the datapoints.
        on_enqueued: called in this thread after each call that enqueued, with the number of datapoints since its start;
            None calls nothing.
        reader: the thread that reads.
        reading, enqueuing: meters of its two threads. The second one waits for room during the calls that enqueue.
    """

    def __init__(
        self,
        who: str,
        dataflow: DataFlow,
        signature: Sequence[tf.TensorSpec],
        ops: EnqueueOps,
        stream: Stream | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__()
        self.name = f"EnqueueThread: {who}"
        self.daemon = True
        self.error: BaseException | None = None
        self.interruption: BaseException | None = None
        self._who = title or who
        self._dataflow = dataflow
        self._stream = stream or Stream(dataflow, RepeatedData(dataflow, -1))
        self.converter = DatapointConverter(self._who, signature)
        self._ops = ops
        self._buffer: HandoffQueue[SizedArrays] = HandoffQueue(
            _MAX_WAITING_NBYTES,
            itemgetter(0),
            partial(take_chunk, max_length=ops.max_chunk),
            # Each time the reader wakes, it takes a turn of the interpreter's lock.
            refill_at=_MAX_WAITING_NBYTES // 4,
        )
        self.reader = threading.Thread(target=self._read, name=f"{self.name}, reading", daemon=True)
        self._leaves_queue_open = False
        self._was_told_to_stop = False
        self._has_enqueued = threading.Event()
        self._num_enqueued = 0
        self.on_enqueued: Callable[[int], object] | None = None
        self.reading, self.enqueuing = Meter(f"{who}: reading"), Meter(f"{who}: enqueuing")

    def start(self) -> None:
        """
        Start reading and enqueuing, in the default session.

        Raises:
            RuntimeError: there is no default session.
        """
        if tf.get_default_session() is None:
            raise RuntimeError(
                f"{self._who}: there is no default session to enqueue in. Start the thread under `with sess.as_default():`."
            )
        super().start()

    def run(self) -> None:
        """Enqueue until the data ends or fails, or `stop` is called."""
        self.reader.start()
        with self.default_sess() as session:
            try:
                self._enqueue_all(session)
            except Exception as error:  # noqa: BLE001 (the session's next run raises it)
                self._on_enqueue_error(error)
            finally:
                self._has_enqueued.set()
                self._buffer.stop()
                self.enqueuing.end()
                if not self._leaves_queue_open:
                    _run_if_open(session, self._ops.close)
                self.reader.join()

    def stop(self) -> None:
        """Stop both threads and drop the remaining datapoints. Wait for the threads, except for a DataFlow that hangs."""
        if self.ident is None:
            return
        self._was_told_to_stop = True
        self._leaves_queue_open = True  # closed below
        self._buffer.stop()
        _run_if_open(self._sess, self._let_enqueue_return)
        _run_if_open(self._sess, self._ops.cancel)
        # After an interruption, the DataFlow hangs: that is why a run waited for it.
        self.join(_JOIN_SECONDS if self.interruption is None else 0)
        if self.is_alive():
            logger.warning(
                f"{self._who}: the DataFlow {type(self._dataflow).__name__} hangs. Its thread keeps running."
            )

    def _let_enqueue_return(self, session: tf.Session) -> None:
        """Dequeue until a blocked enqueue has returned. TensorFlow would log a warning if it were cancelled."""
        while self.is_alive() and not self._has_enqueued.wait(0.001) and self._ops.dequeue is not None:
            for _ in range(session.run(self._ops.size)):
                session.run(self._ops.dequeue)

    def interrupt(self) -> None:
        """Close the queue from another thread, so that a run that waits for a datapoint fails."""
        self.interruption = error_of_interrupted_run(self._who)
        _run_if_open(self._sess, self._ops.cancel)

    def retire(self) -> None:
        """Stop both threads after their current datapoint, and leave the queue open for another EnqueueThread."""
        self._leaves_queue_open = True
        self._buffer.stop()

    def _enqueue_all(self, session: tf.Session) -> None:
        calls: dict[int, Callable[..., Any]] = {}
        while True:
            chunk = self._buffer.take(self.enqueuing)
            if not chunk:
                return
            call = calls.get(len(chunk))
            if call is None:
                call = calls[len(chunk)] = self._ops.make_call(session, len(chunk))
            arrays = [array for _, datapoint in chunk for array in datapoint]
            self.enqueuing.begin_wait(is_for_room=True)
            call(*arrays)
            self._num_enqueued += len(chunk)
            self.enqueuing.words[COUNT] = self._num_enqueued
            self.enqueuing.end_wait()
            on_enqueued = self.on_enqueued  # another thread may set it
            if on_enqueued is not None:
                on_enqueued(self._num_enqueued)

    def _read(self) -> None:
        stamp = self._stream.stamp
        try:
            with self.default_sess():
                for datapoint in iterate_named(self._stream, self._who, self._dataflow):
                    arrays = self.reading.call(self.converter, datapoint)
                    if stamp is not None:
                        self.reading.words[TICKET] = stamp(arrays)
                    size = 0
                    for array in arrays:
                        size += array.nbytes
                    if size < _SMALL_NBYTES:
                        size = _SMALL_NBYTES
                    if not self._buffer.put([(size, arrays)], meter=self.reading, size=size):
                        return
        except DataFlowTerminated:
            logger.info(f"{self._who}: the DataFlow {type(self._dataflow).__name__} was terminated.")
        except BaseException as error:  # noqa: BLE001 (the session's next run raises it)
            self.error = error
        finally:
            self._buffer.end()
            self.reading.end()

    def _on_enqueue_error(self, error: Exception) -> None:
        """Store an error of the queue, unless it only says that the queue or the session was closed."""
        is_end = isinstance(error, (tf.errors.CancelledError, tf.errors.OutOfRangeError)) or _is_closed(error)
        if not self._was_told_to_stop and not is_end and self.error is None:
            self.error = error


def _run_if_open(session: tf.Session, what: tf.Operation | Callable[[tf.Session], object]) -> None:
    """Run an operation, or call a function with the session, unless the session is closed."""
    try:
        what(session) if callable(what) else session.run(what)
    except tf.errors.CancelledError:
        return  # the session is being closed
    except RuntimeError as error:
        if not _is_closed(error):
            raise


def _is_closed(error: Exception) -> bool:
    return isinstance(error, RuntimeError) and "closed" in str(error).lower()


def _min_nbytes(placeholder: tf.Tensor) -> int:
    """Return the minimum size of a component in bytes. An unknown dimension counts as one."""
    if placeholder.shape.dims is None:
        return placeholder.dtype.size
    num_elements = 1
    for size in placeholder.shape.as_list():
        num_elements *= 1 if size is None else size
    return num_elements * placeholder.dtype.size
