"""
The way of datapoints into a queue of the graph: one thread reads them, another puts them into the queue.

What costs is the number of calls into TensorFlow's runtime, which share the interpreter's lock with the training loop. So
the second thread takes whatever waits for it and enqueues up to 16 small datapoints with one call. It never waits for
more: a DataFlow may give its next datapoint only after training has used the ones before.
"""

from __future__ import annotations

import itertools
import threading
from operator import itemgetter
from typing import Any, Callable, Deque, Sequence, Tuple

from ..compat import private
from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, DataFlowTerminated
from ..dataflow.repeat import RepeatedData
from ..loop.interrupt import interrupted
from ..utils import logger
from ..utils.concurrency import ShareSessionThread
from ..utils.handoff import HandoffQueue
from .datapoint import Arrays, DatapointConverter, iterate_named
from .whole_passes import WholePasses

__all__ = ["EnqueueOps", "EnqueueThread", "take_chunk"]

_CHUNKS = (16, 4, 1)
_SMALL_NBYTES = 1 << 16  # a datapoint up to this size is enqueued together with others
_MAX_WAITING_NBYTES = (
    64 * _SMALL_NBYTES
)  # between the two threads; a smaller datapoint counts as _SMALL_NBYTES
_JOIN_SECONDS = 2.0

SizedArrays = Tuple[int, Arrays]


def take_chunk(waiting: Deque[SizedArrays]) -> list[SizedArrays]:
    """
    Remove from the left the datapoints for one call: 16, 4 or 1 small ones, or a large one.

    Args:
        waiting: datapoints with their sizes; at least one.
    """
    num_small = 0
    for size, _ in itertools.islice(waiting, _CHUNKS[0]):
        if size > _SMALL_NBYTES:
            break
        num_small += 1
    length = next((length for length in _CHUNKS if length <= num_small), 1)
    return [waiting.popleft() for _ in range(length)]


class EnqueueOps:
    """
    The operations that put 1, 4 or 16 datapoints into a queue, in order, with one call.

    The first datapoint goes through `placeholders`. The others have placeholders of their own, in the current name scope
    under `chunk/`; each enqueue waits for the one before it. When datapoints are large there are none of these.

    Args:
        queue: a TensorFlow queue.
        placeholders: one for each component.
    """

    def __init__(self, queue: Any, placeholders: Sequence[Any]) -> None:
        self._placeholders = [list(placeholders)]
        self._ops = [queue.enqueue(placeholders)]
        self.close = queue.close(name="close")
        self.cancel = queue.close(cancel_pending_enqueues=True, name="cancel")
        if sum(map(_min_nbytes, placeholders)) <= _SMALL_NBYTES:
            with tf.name_scope("chunk"):
                for _ in range(1, _CHUNKS[0]):
                    self._add(queue)

    def _add(self, queue: Any) -> None:
        placeholders = [tf.placeholder(p.dtype, p.shape, name=p.op.name) for p in self._placeholders[0]]
        with tf.control_dependencies([self._ops[-1]]):
            self._ops.append(queue.enqueue(placeholders))
        self._placeholders.append(placeholders)

    @property
    def max_chunk(self) -> int:
        """How many datapoints one call can take."""
        return len(self._ops)

    def make_call(self, session: Any, size: int) -> Callable[..., Any]:
        """Make the function that enqueues `size` datapoints; it takes their arrays one after the other."""
        feeds = [placeholder for one in self._placeholders[:size] for placeholder in one]
        return private.make_callable(session, [], [self._ops[size - 1]], feeds)


class EnqueueThread(ShareSessionThread):
    """
    The thread behind a QueueInput: repeats a DataFlow for ever and puts its datapoints into a queue.

    It reads in a second thread. Both have the session that is the default at `start()` as their default session.
    An error is kept in `error`; the queue is closed behind the last good datapoint, so that training uses all of them
    and then meets the error.

    Args:
        who: the input, for messages, e.g. "QueueInput".
        dataflow: the user's DataFlow; reset already when the thread starts.
        signature: a list of `TensorSpec` of a datapoint.
        ops: how to enqueue.
        needs_whole_passes: whether a pass with fewer datapoints than `len(dataflow)` is an error.

    Attributes:
        error: what the DataFlow, the check of a datapoint or the queue raised; None as long as all is well.
        interruption: the KeyboardInterrupt of a run that `interrupt` made fail, else None.
    """

    def __init__(
        self,
        who: str,
        dataflow: DataFlow,
        signature: Sequence[Any],
        ops: EnqueueOps,
        needs_whole_passes: bool = False,
    ) -> None:
        super().__init__()
        self.name = f"EnqueueThread: {who}"
        self.daemon = True
        self.error: BaseException | None = None
        self.interruption: BaseException | None = None
        self._who = who
        self._dataflow = dataflow
        self._passes = WholePasses(dataflow) if needs_whole_passes else dataflow
        self._convert = DatapointConverter(who, signature)
        self._ops = ops
        self._buffer: HandoffQueue[SizedArrays] = HandoffQueue(_MAX_WAITING_NBYTES, itemgetter(0), take_chunk)
        self._reader = threading.Thread(target=self._read, name=f"{self.name}, reading", daemon=True)
        self._leaves_queue_open = False
        self._was_told_to_stop = False

    def start(self) -> None:
        """
        Start reading and enqueuing, in the default session.

        Raises:
            RuntimeError: there is no default session.
        """
        if tf.get_default_session() is None:
            raise RuntimeError(
                f"{self._who}: there is no default session to enqueue in. Start it under `with sess.as_default():`."
            )
        super().start()

    def run(self) -> None:
        """Enqueue until the data ends, fails, or `stop` is called."""
        self._reader.start()
        with self.default_sess() as session:
            try:
                self._enqueue_all(session)
            except Exception as error:  # noqa: BLE001 (kept, and raised by the session's next run)
                self._on_enqueue_error(error)
            finally:
                self._buffer.stop()
                if not self._leaves_queue_open:
                    _run_if_open(session, self._ops.close)
                self._reader.join()

    def stop(self) -> None:
        """End both threads, dropping what is not consumed yet; waits for them, though not for a DataFlow that hangs."""
        if self.ident is None:
            return
        self._was_told_to_stop = True
        self._buffer.stop()
        _run_if_open(self._sess, self._ops.cancel)
        # After an interruption the DataFlow is known to hang.
        self.join(_JOIN_SECONDS if self.interruption is None else 0)
        if self.is_alive():
            logger.warning(
                f"{self._who}: the DataFlow {type(self._dataflow).__name__} does not return; its thread is left behind."
            )

    def interrupt(self) -> None:
        """Close the queue, so that a run that waits for a datapoint fails. Called in another thread."""
        self.interruption = interrupted(self._who)
        _run_if_open(self._sess, self._ops.cancel)

    def retire(self) -> None:
        """Make both threads end after what they are doing, and leave the queue open for another thread."""
        self._leaves_queue_open = True
        self._buffer.stop()

    def _enqueue_all(self, session: Any) -> None:
        calls: dict[int, Callable[..., Any]] = {}
        while True:
            chunk = self._buffer.take()
            if not chunk:
                return
            for part in _split(chunk, self._ops.max_chunk):
                call = calls.get(len(part))
                if call is None:
                    call = calls[len(part)] = self._ops.make_call(session, len(part))
                call(*[array for _, datapoint in part for array in datapoint])

    def _read(self) -> None:
        try:
            with self.default_sess():
                for datapoint in iterate_named(RepeatedData(self._passes, -1), self._who, self._dataflow):
                    arrays = self._convert(datapoint)
                    size = max(_SMALL_NBYTES, sum(array.nbytes for array in arrays))
                    if not self._buffer.put([(size, arrays)]):
                        return
        except DataFlowTerminated:
            logger.info(f"{self._who}: the DataFlow {type(self._dataflow).__name__} was terminated.")
        except BaseException as error:  # noqa: BLE001 (kept, and raised by the session's next run)
            self.error = error
        finally:
            self._buffer.end()

    def _on_enqueue_error(self, error: Exception) -> None:
        """A queue or session that was closed is an end; everything else is an error."""
        if self._was_told_to_stop or isinstance(error, (tf.errors.CancelledError, tf.errors.OutOfRangeError)):
            return
        if _is_closed(error):
            return
        if self.error is None:
            self.error = error


def _run_if_open(session: Any, op: Any) -> None:
    try:
        session.run(op)
    except tf.errors.CancelledError:
        return  # the session is being closed
    except RuntimeError as error:
        if not _is_closed(error):
            raise


def _is_closed(error: Exception) -> bool:
    return isinstance(error, RuntimeError) and "closed" in str(error).lower()


def _split(chunk: list[SizedArrays], size: int) -> list[list[SizedArrays]]:
    if len(chunk) <= size:
        return [chunk]
    return [chunk[i : i + 1] for i in range(len(chunk))]


def _min_nbytes(placeholder: Any) -> int:
    """Give the least size of a component: an unknown dimension counts as one."""
    if placeholder.shape.dims is None:
        return placeholder.dtype.size
    num_elements = 1
    for size in placeholder.shape.as_list():
        num_elements *= 1 if size is None else size
    return num_elements * placeholder.dtype.size
