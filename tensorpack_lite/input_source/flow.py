"""The data of an input, for features that training does not need, such as exact resume, speed, hangs and lint."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ContextManager

import numpy as np

from ..compat import tfv1 as tf
from ..dataflow.base import DataFlow, stop_workers
from ..dataflow.batch import find_batch_size
from ..dataflow.exact.stage_position import ResumeReport, State
from ..dataflow.meter import Meter
from ..dataflow.repeat import is_endless
from ..loop.callback import Callback
from ..loop.step import Step
from ..tfutils.exact.state import find_exact
from .datapoint import DatapointConverter
from .exact.consumed import ConsumedCounter
from .exact.data_position import DataPosition, DatasetPosition
from .stream import Stream


class InputInfo:
    """
    The flow of datapoints into an input, which the inputs around it share.

    The input calls `open` when it is set up, `taking` for each tower, `leave_pass` when it begins a new pass early, and
    `close` after training.
    Everything else is for the features that observe it. Without exact resume, nothing is counted.

    Args:
        who: the class of the input.

    Attributes:
        user: the class that has set up the input, for the errors of its data; "" if it is the trainer. Set it before `setup`.
        converter: the converter of the datapoints; None if they do not pass through Python.
        threads: meters of the input's own threads, from the graph to the data; None if it is unknown where it waits.
        no_position: why the data cannot return to a position; "" if there is nothing to return to. None: it can, or nothing is
            known.
        is_staged: whether datapoints wait in a staging area after they were taken. They are counted when they are removed, so
            each removal must be one datapoint of the input inside.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self.user = ""
        self.converter: DatapointConverter | None = None
        self.threads: list[Meter] | None = None
        self.no_position: str | None = None
        self.is_staged = False
        self._num_taken = 1  # by the operation of one tower
        self._exact: Any = None
        self._saved: State | None = None
        self._data: Any = None
        self._stream: Any = None
        self._is_read_here = False
        self._consumed: ConsumedCounter | None = None

    @property
    def is_counted(self) -> bool:
        """Whether datapoints are counted, because the training is resumed exactly."""
        return self._consumed is not None

    @property
    def batch_size(self) -> int | None:
        """The number of samples in a datapoint; None if no BatchData of its DataFlow tells."""
        return find_batch_size(self._data)

    @property
    def never_ends(self) -> bool:
        """Whether a pass of its DataFlow never ends; False if this is not known."""
        return is_endless(self._data)

    # For inputs ------------------------------------------------------------------------------------------------------
    def name_input(self, name: str) -> str:
        """
        Return the name of an input in messages, e.g. "InferenceRunner: FeedInput".

        Args:
            name: its class.
        """
        return f"{self.user}: {name}" if self.user else name

    def begin(self, who: str) -> None:
        """
        Resume the data if the training in this graph is resumed exactly. Only the first call counts.

        Args:
            who: the class of the outermost input.
        """
        if self._exact is None:
            self._exact = find_exact()
            self._saved = None if self._exact is None else self._exact.add_source(who, self)

    def open(self, flow: DataFlow, passes: DataFlow, num_ahead: int | None = None) -> Stream:
        """
        Return the datapoints of a DataFlow.

        Args:
            flow: the DataFlow.
            passes: the same DataFlow, repeated as often as the input needs it.
            num_ahead: the maximum number of datapoints that another thread reads ahead of training; None if the thread that
                trains reads them.
        """
        self._data, self._is_read_here = flow, num_ahead is None
        self._stream = Stream(flow, passes)
        if self._exact is not None and self.no_position is None:
            self._stream = DataPosition(self._who, passes, self._saved, self._exact.is_required, num_ahead or 1)
            self._consumed = ConsumedCounter(self._stream.start)
        return self._stream

    def open_dataset(self) -> DatasetPosition | None:
        """Return the position in a `tf.data.Dataset`; None without exact resume."""
        if self._exact is None:
            return None
        self._data = self._stream = DatasetPosition(self._who, self._saved)
        self._consumed = ConsumedCounter(self._stream.start)
        return self._stream

    def taking(self, num: int = 1) -> ContextManager[Any]:
        """
        Context manager for the creation of an operation that takes datapoints for one tower.

        Args:
            num: how many datapoints it takes.
        """
        self._num_taken = num
        return nullcontext() if self.is_staged else self.removing()

    def removing(self) -> ContextManager[Any]:
        """Context manager for the creation of an operation that removes what a tower has taken from its staging area."""
        if self._consumed is None:
            return nullcontext()
        return tf.control_dependencies([self._consumed.count(self._num_taken)])

    def leave_pass(self) -> None:
        """Begin a new pass; what was read ahead is dropped. Needs a default session."""
        if self._stream is not None:
            self._stream.leave_pass()
        if self._consumed is not None:
            self._consumed.assign(self._stream.start)

    def close(self, callback: Callback) -> None:
        """
        Stop the workers of the DataFlow when training has ended. Another training resets it again.

        Args:
            callback: a callback of the input. Its trainer first waits for `after_train` of all callbacks, which may use the
                data; without a trainer, the workers are stopped now.
        """
        trainer = getattr(callback, "trainer", None)
        if trainer is None:
            stop_workers(self._data)
        else:
            trainer.loop.at_end.callback(stop_workers, self._data)

    def use_all(self) -> None:
        """Count all datapoints that were read as used."""
        if self._consumed is not None:
            self._consumed.assign(self._stream.last)

    # For those who observe it ----------------------------------------------------------------------------------------
    def meters(self) -> list[Meter]:
        """
        Return the meters of the threads and DataFlows of this input, from the graph to the data.

        Returns:
            The meter of the outermost stage of the DataFlow is the last one. Empty if there is no DataFlow, or before it is reset.
        """
        if self.threads is None or self._stream is None:
            return []
        return [meter for meter in (*self.threads, self._stream.flow._meter) if meter is not None]

    def first_checksums(self) -> list[list[str]]:
        """Return the checksums of the first 8 datapoints that were read, one for each component; empty if unknown."""
        return [] if self.converter is None else self.converter.first_checksums

    def first_datapoint(self) -> dict[str, np.ndarray]:
        """Return up to 16 samples of the first datapoint that was read, by the names of the inputs; empty if unknown."""
        return {} if self.converter is None else self.converter.first_datapoint

    def resume_report(self) -> list[ResumeReport]:
        """
        Describe how this input is resumed; see `DataFlow.resume_report`.

        Returns:
            A `ResumeReport` for each part; empty if there is nothing to resume.
        """
        if self._data is not None and self.no_position is None:
            return self._data.resume_report()
        reason = "it cannot return to a position" if self.no_position is None else self.no_position
        return [ResumeReport(self._who, "none", reason)] if reason else []

    def get_state(self, failed: Step | None = None) -> State:
        """
        Return the position of the data: what comes after the last datapoint that was used. Needs a default session.

        Call it between two runs, in a graph with `begin_exact_resume`.

        Args:
            failed: a run that was made to fail while it waited for data; its datapoints do not count as used.

        Returns:
            JSON values and NumPy arrays.
        """
        if self._consumed is None:
            return {}
        used = self._consumed.number() - (0 if failed is None else self._consumed.num_in(failed))
        if self._is_read_here and used == self._stream.last:
            return self._stream.state_now()
        return self._stream.state(used)

    def last_numbers(self) -> list[int]:
        """Return, for each tower, the number of the last datapoint that it used, from 1; empty without `exact`."""
        return [] if self._consumed is None else self._consumed.of_towers()
