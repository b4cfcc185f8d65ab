"""Monitor that writes TensorBoard's event file."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Mapping

from ...compat import tfv1 as tf
from ...utils import logger
from ...utils.hyperparams import Value
from ...utils.protobuf import write_field
from .base import MonitorBase


class TFEventWriter(MonitorBase):
    """
    Monitor that writes summaries, events, the graph and the hyper-parameters to a TensorFlow event file.

    Args:
        logdir: an existing directory; None means the logger's directory when training starts. If there is none, nothing is
            written, with a warning.
        max_queue: number of events to buffer before they are written.
        flush_secs: seconds between writes to the disk.
        split_files: start a new file at each trigger, so that finished files can be moved.

    Raises:
        ValueError: `logdir` is not a directory.

    Runs at: before_train (a background thread writes the graph), trigger (flush), after_train (close).

    Note: the file is created at the first write. Each checkpoint waits until the events so far are on the disk. A training that
    resumes from a checkpoint begins with an event that makes TensorBoard ignore what was written after the checkpoint.
    """

    def __init__(
        self, logdir: str | None = None, max_queue: int = 10, flush_secs: int = 120, split_files: bool = False
    ) -> None:
        if logdir and not os.path.isdir(logdir):
            raise ValueError(f"TFEventWriter: logdir '{logdir}' is not a directory. Create it first.")
        self._given_dir = os.path.abspath(logdir) if logdir else None
        self._logdir: str | None = None
        self.enabled = True
        self._max_queue = max_queue
        self._flush_secs = flush_secs
        self._split_files = split_files
        self._num_files = 0
        self._has_begun = False
        self._writer: Any = None
        self._graph_thread: threading.Thread | None = None
        self._hyperparams: dict[str, Value] = {}

    def _setup_graph(self) -> None:
        self._logdir = self._given_dir or logger.get_logger_dir()
        self.enabled = self._logdir is not None
        if self._logdir is None and self.trainer.is_chief:
            logger.warning(
                "TFEventWriter: no logger directory, so nothing is written. Call logger.set_logger_dir(...) first."
            )

    def process_summary(self, summary: tf.Summary) -> None:
        """Write a summary at the current step."""
        # Like RowMonitor, without what a resumed training reports before it begins.
        if self.enabled and (self._has_begun or not self.trainer.loop.is_resumed):
            self._get_writer().add_summary(summary, self.global_step)

    def process_event(self, evt: tf.Event) -> None:
        """Write an event."""
        if self.enabled:
            self._get_writer().add_event(evt)

    def process_hyperparams(self, values: Mapping[str, Value]) -> None:
        """Keep hyper-parameters until they are written in before_train: TensorBoard reads only the first ones of a run."""
        self._hyperparams.update(values)

    def state_dict(self) -> dict[str, Any] | None:
        """Write the events so far to the disk, because a training that resumes does not report them again. Return None."""
        if self._writer is not None:
            self._writer.flush()
        return None

    def _before_train(self) -> None:
        self._has_begun = True
        if not self.enabled:
            return
        if self.trainer.loop.is_resumed:
            start = tf.SessionLog(status=tf.SessionLog.START)
            self._get_writer().add_session_log(start, self.global_step + 1)
        if self._hyperparams:
            self._get_writer().add_summary(_hyperparams_summary(self._hyperparams, os.path.basename(str(self._logdir))))
        # Serializing a large graph takes seconds, so a thread does it.
        self._graph_thread = threading.Thread(
            target=self._get_writer().add_graph, args=(self.graph,), name="TFEventWriter-graph", daemon=True
        )
        self._graph_thread.start()

    def _trigger(self) -> None:
        if self._writer is None:
            return
        if self._split_files:
            self._close()
        else:
            self._writer.flush()

    def _after_train(self) -> None:
        self._close()

    def _get_writer(self) -> tf.summary.FileWriter:
        if self._writer is None:
            # On TensorFlow 1.15, two files created within one second would have the same name.
            suffix = f".{self._num_files}" if self._split_files else None
            self._writer = tf.summary.FileWriter(
                self._logdir, max_queue=self._max_queue, flush_secs=self._flush_secs, filename_suffix=suffix
            )
            self._num_files += 1
        return self._writer

    def _close(self) -> None:
        if self._graph_thread is not None:
            self._graph_thread.join()
            self._graph_thread = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _hyperparams_summary(values: Mapping[str, Value], name: str) -> tf.Summary:
    """
    Return the summary that TensorBoard's plugin HParams reads: a session's start, in the metadata.

    Its messages are written by hand, because TensorBoard, which defines them, need not be installed.
    """
    entries = [
        write_field(1, write_field(1, key.encode()) + write_field(2, _struct_value(values[key]))) for key in values
    ]
    start = b"".join(entries) + write_field(4, name.encode()) + write_field(5, time.time())
    summary = tf.Summary()
    value = summary.value.add(tag="_hparams_/session_start_info", tensor=tf.make_tensor_proto(0.0, tf.float32, []))
    value.metadata.plugin_data.plugin_name = "hparams"
    value.metadata.plugin_data.content = write_field(3, start)
    return summary


def _struct_value(value: Value) -> bytes:
    """Return a message `google.protobuf.Value`."""
    if isinstance(value, bool):
        return write_field(4, value)
    return write_field(3, value.encode()) if isinstance(value, str) else write_field(2, float(value))
