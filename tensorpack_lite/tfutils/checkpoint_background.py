"""Saving while training continues: a copy of the variables, and the thread that writes it to a checkpoint."""

from __future__ import annotations

import threading
from typing import Callable, List

import numpy as np

from ..compat import tfv1 as tf
from ..compat.session import Session
from ..utils.argtools import graph_memoized
from .checkpoint_reader import LiteralPath
from .model_utils import static_bytes

_ALIGNMENT = 64  # bytes; TensorFlow uses an array at such an address without a copy


class VariableWriter:
    """
    The variables of a `tf.train.Saver`, to be fetched now and written later, without the session of the training.

    The files are the same bytes as those of `Saver.save`: names, their order, and slices of partitioned
    variables are taken from the operation of the Saver.

    Args:
        saver: a Saver in the default graph that writes the V2 format to one file.

    Attributes:
        num_bytes: the size of all variables whose shape is known.
    """

    def __init__(self, saver: tf.train.Saver) -> None:
        saved = tf.get_default_graph().get_tensor_by_name(saver.saver_def.save_tensor_name)
        (operation,) = saved.op.control_inputs
        _, names, slices, *self._tensors = operation.inputs
        self._names, self._slices = (
            [text.decode() for text in tf.make_ndarray(const.op.get_attr("value"))] for const in (names, slices)
        )
        self.num_bytes = sum(map(static_bytes, self._tensors))
        dtypes = [tensor.dtype.base_dtype for tensor in self._tensors]
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._prefix = tf.placeholder(tf.string, [])
            self._values = [tf.placeholder(dtype) for dtype in dtypes]
            self._save = tf.raw_ops.SaveV2(
                prefix=self._prefix,
                tensor_names=self._names,
                shape_and_slices=self._slices,
                tensors=self._values,
            )
            self._name, self._slice = tf.placeholder(tf.string, [1]), tf.placeholder(tf.string, [1])
            readers = {
                dtype: tf.raw_ops.RestoreV2(
                    prefix=self._prefix, tensor_names=self._name, shape_and_slices=self._slice, dtypes=[dtype]
                )[0].op
                for dtype in set(dtypes)
            }
        self._readers = [readers[dtype] for dtype in dtypes]

    def fetch(self, session: tf.Session) -> List[np.ndarray]:
        """Copy all variables in one run of a session."""
        arrays: List[np.ndarray] = session.run(self._tensors)
        return arrays

    def write(self, prefix: str, arrays: List[np.ndarray]) -> None:
        """
        Write a checkpoint.

        Args:
            prefix: its path, without suffix.
            arrays: the result of `fetch`, which is emptied, so that the memory is freed.

        Raises:
            tf.errors.OpError: the files cannot be written.
        """
        for index, array in enumerate(arrays):
            arrays[index] = _aligned(np.asarray(array))
        feeds = dict(zip(self._values, arrays))
        arrays.clear()
        with self._session() as session:
            session.run(self._save, {self._prefix: prefix, **feeds})

    def read_back(self, prefix: str) -> None:
        """
        Read a checkpoint, one variable at a time. Unlike TensorFlow's reader, this does not make other Python
        threads wait.

        Raises:
            tf.errors.OpError: a variable is missing or damaged.
        """
        literal = LiteralPath(prefix)
        with self._session() as session:
            for name, part, reader in zip(self._names, self._slices, self._readers):
                session.run(reader, {self._prefix: literal.path, self._name: [name], self._slice: [part]})

    def _session(self) -> tf.Session:
        config = tf.ConfigProto(
            device_count={"GPU": 0},
            intra_op_parallelism_threads=1,
            inter_op_parallelism_threads=1,
            use_per_session_threads=True,  # so that training keeps its threads
        )
        return Session(graph=self._graph, config=config)


class BackgroundSave:
    """
    A save that runs in a thread; at most one at a time.

    Attributes:
        fsync: whether the savers of the directory flush its files to the disk; see `CheckpointStore`.
        has_saver: whether a callback that has been set up saves checkpoints to the directory.
    """

    def __init__(self) -> None:
        self.fsync = True
        self.has_saver = False
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def is_running(self) -> bool:
        """Whether a save is in progress."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, save: Callable[[], object]) -> None:
        """
        Start a thread that calls a function, after waiting for the previous one.

        Raises:
            BaseException: as `wait`.
        """
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(save,), name="ModelSaver", daemon=True)
        self._thread.start()

    def follow(self, write: Callable[[], object]) -> None:
        """
        Call a function after the save in progress, in a thread, if the save succeeds. Without one, call it at once.

        Raises:
            BaseException: without a save in progress, the error of the function; otherwise `wait` raises it.
        """
        previous = self._thread
        if previous is None or not previous.is_alive():
            if self._error is None:
                write()
            return

        def join_and_write() -> None:
            previous.join()
            if self._error is None:
                write()

        self._thread = threading.Thread(target=self._run, args=(join_and_write,), name="ModelSaver", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until the save is finished.

        Args:
            timeout: seconds to wait; None means no limit.

        Returns:
            Whether it is finished, or there is none.

        Raises:
            BaseException: the error of the save, once.
        """
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return False
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return True

    def _run(self, save: Callable[[], object]) -> None:
        try:
            save()
        except BaseException as error:  # noqa: BLE001 (`wait` raises it in the main thread)
            self._error = error


@graph_memoized
def background_save(directory: str) -> BackgroundSave:
    """
    Return the background save of a directory, which all savers in the default graph share.

    Args:
        directory: a directory of checkpoints.
    """
    return BackgroundSave()


def _aligned(array: np.ndarray) -> np.ndarray:
    """
    Return an array, or a copy of it, that TensorFlow can be fed without a copy.

    TensorFlow would copy all arrays before it writes the first one, while other Python threads wait.
    """
    if array.dtype.hasobject or array.ctypes.data % _ALIGNMENT == 0:
        return array
    buffer = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    aligned = buffer[start : start + array.nbytes]
    aligned[:] = array.reshape(-1).view(np.uint8)
    return aligned.view(array.dtype).reshape(array.shape)
