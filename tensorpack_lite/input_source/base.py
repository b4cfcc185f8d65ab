"""
The InputSource interface, and the base class of its wrappers.

In:  a model's signature (a list of `TensorSpec`), and datapoints.
Out: for each tower, a list of tensors that match the signature; callbacks that supply the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Iterator, Sequence

import numpy as np

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..dataflow.base import LengthUnknownError
from ..dataflow.meter import Meter
from ..dataflow.recording import ResumeReport, State
from ..loop.callback import Callback
from ..tfutils.exact import find_exact
from ..utils.errors import type_error
from .datapoint import DatapointConverter
from .reset import ResetInput
from .used import UsedTickets

__all__ = [
    "FeedfreeInput",
    "InputSource",
    "ProxyInputSource",
]


class InputSource(ABC):
    """
    Base class of everything that provides datapoints as tensors.

    `setup` is called once, while the graph is built, and `get_input_tensors` once for each tower. The
    callbacks take part in training. `reset_state` restarts the data. Subclasses override the methods with an
    underscore.

    Note: the callbacks may implement only `setup_graph`, `before_train`, `after_train`, `before_run`, `after_run`,
    `background_error` and `interrupt`, and may not use `self.trainer`, because a FeedfreePredictor has no trainer.
    """

    _setup_done = False
    _callbacks: list[Callback] | None = None
    _name_scope: str | None = None
    _is_inner = False  # whether another input modifies this one
    _ticket: tf.Tensor | None = None  # of the tensors that `_get_input_tensors` returned last
    _used: UsedTickets

    # Methods for subclasses to override ------------------------------------------------------------------------------
    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:  # noqa: B027 (optional)
        """Create the operations that all towers share."""

    @abstractmethod
    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        """Create the input tensors of one tower. Unless they are placeholders, each tower gets a different datapoint."""

    def _get_callbacks(self) -> list[Callback]:
        """Return the callbacks that supply the data."""
        return []

    def _reset_state(self) -> None:  # noqa: B027 (optional)
        """Restart the data. A default session exists."""

    def _size(self) -> int:
        """Return the number of datapoints in one pass, as a single tower takes them."""
        raise LengthUnknownError(
            f"{type(self).__name__}: the number of datapoints is unknown. For training, pass "
            "TrainConfig(steps_per_epoch=...)."
        )

    def _begin_at(self, state: State | None, is_strict: bool) -> None:  # noqa: B027 (optional)
        """
        Keep the position of the data from `setup` on, and begin at a saved one. Called before `_setup`.

        Args:
            state: what `_state_after` returned; None begins anew.
            is_strict: whether a datapoint that differs from the saved checksum is an error.
        """

    def _state_after(self, ticket: int | None) -> State:
        """
        Return the position of the data.

        Args:
            ticket: that of the last datapoint that was used; None if the tensors have no tickets.
        """
        return {}

    def meters(self) -> list[Meter]:
        """
        Return the meters of the threads and DataFlows of this input, from the graph to the data.

        Returns:
            The meter of the outermost stage of the DataFlow is the last one. Empty if there is no DataFlow, or before it is reset.
        """
        return []

    def resume_report(self) -> list[ResumeReport]:
        """
        Describe how this input is resumed; see `DataFlow.resume_report`.

        Returns:
            A `ResumeReport` for each part; empty if there is nothing to resume.
        """
        return [ResumeReport(type(self).__name__, "none", "it cannot return to a position")]

    # Methods for trainers, runners and predictors to call ------------------------------------------------------------
    def setup(self, input_signature: Sequence[tf.TensorSpec]) -> list[Callback]:
        """
        Create the operations that all towers share.

        Args:
            input_signature: the model's inputs, a list of `TensorSpec` with names.

        Returns:
            The callbacks of `get_callbacks`.

        Raises:
            RuntimeError: `setup` was called before.
        """
        if self._setup_done:
            raise RuntimeError(
                f"{type(self).__name__}.setup: this input was already set up. Create an input for each use, e.g. one for "
                "training and one for validation."
            )
        ensure_graph_mode()
        exact = find_exact()
        if exact is not None and not self._is_inner:
            self._used = UsedTickets()
            state = exact.add_source(type(self).__name__, self)
            self._begin_at(state, exact.is_required)
        self._setup(input_signature)
        self._setup_done = True
        return self.get_callbacks()

    def setup_done(self) -> bool:
        """Return whether `setup` has been called."""
        return self._setup_done

    def get_callbacks(self) -> list[Callback]:
        """
        Return the callbacks that this input needs, the same objects at each call.

        Returns:
            A list of callbacks that run on every rank. The first one resets this input in `before_train`.

        Raises:
            RuntimeError: called before `setup`.
        """
        if not self._setup_done:
            raise RuntimeError(f"{type(self).__name__}.get_callbacks: call setup(input_signature) first.")
        if self._callbacks is None:
            self._callbacks = [cb.set_chief_only(False) for cb in [ResetInput(self), *self._get_callbacks()]]
        return self._callbacks

    def get_input_tensors(self) -> Sequence[tf.Tensor]:
        """
        Create the input tensors of one tower.

        Returns:
            Tensors that match the signature. Each call returns tensors of a different datapoint; only inputs
            that are fed return the same placeholders.
        """
        tensors = self._get_input_tensors()
        if self._ticket is None or self._is_inner:
            return tensors
        with self.cached_name_scope():
            return self._used.count(tensors, self._ticket)

    def get_state(self, failed_step: int | None = None) -> State:
        """
        Return the position of the data: what comes after the last datapoint that was used. Needs a default session.

        Call it between two runs, in a graph with `begin_exact_resume`.

        Args:
            failed_step: the `global_step` of a run that failed; its datapoints do not count as used.

        Returns:
            JSON values and NumPy arrays.
        """
        return self._state_after(self._used.last(failed_step))

    def last_tickets(self) -> list[int]:
        """Return, for each tower, the number of the last datapoint that it used, from 1; empty without `exact`."""
        return self._used.of_last_run() if find_exact() is not None else []

    def reset_state(self) -> None:
        """Restart the data, if this kind of input can. Needs a default session."""
        self._reset_state()

    @property
    def converter(self) -> DatapointConverter | None:
        """The converter of this input's datapoints, from `setup` on; None if they do not pass through Python."""
        return None

    def first_checksums(self) -> list[list[str]]:
        """Return the checksums of the first 8 datapoints that were read, one for each component; empty if unknown."""
        return [] if self.converter is None else self.converter.first_checksums

    def first_datapoint(self) -> dict[str, np.ndarray]:
        """Return up to 16 samples of the first datapoint that was read, by the names of the inputs; empty if unknown."""
        return {} if self.converter is None else self.converter.first_datapoint

    def size(self) -> int:
        """
        Return the number of datapoints in one pass.

        Raises:
            LengthUnknownError: the number is unknown.
        """
        return self._size()

    def require_exact_size(self) -> None:  # noqa: B027 (optional)
        """
        Raise an error in any later pass that has fewer datapoints than `size`.

        An inference runner calls it before `setup`. Only inputs that repeat their data need to implement it:
        other inputs end with their data, which the runner notices.
        """

    @contextmanager
    def cached_name_scope(self) -> Iterator[str]:
        """
        Enter the name scope of this input. The first call creates it, and names it after the class.

        Yields:
            The scope, e.g. "QueueInput/".
        """
        with tf.name_scope(self._name_scope or type(self).__name__.lstrip("_")) as scope:
            self._name_scope = scope
            yield scope


class FeedfreeInput(InputSource):
    """Base class of inputs whose data comes from the graph, without feeds. Each tower gets different datapoints."""


class ProxyInputSource(InputSource):
    """
    Base class of inputs that modify another input. It forwards everything.

    Args:
        input: the inner input.

    Raises:
        TypeError: `input` is not an InputSource.
    """

    def __init__(self, input: InputSource) -> None:
        if not isinstance(input, InputSource):
            raise type_error(type(self).__name__, "an InputSource", input)
        self._input = input
        input._is_inner = True

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._input.setup(input_signature)

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        return self._take()

    def _take(self) -> Sequence[tf.Tensor]:
        """Return the tensors of the inner input, and keep their ticket."""
        tensors = self._input.get_input_tensors()
        self._ticket = self._input._ticket
        return tensors

    def _begin_at(self, state: State | None, is_strict: bool) -> None:
        self._input._begin_at(state, is_strict)

    def _state_after(self, ticket: int | None) -> State:
        return self._input._state_after(ticket)

    def resume_report(self) -> list[ResumeReport]:
        """Return the report of the inner input."""
        return self._input.resume_report()

    def _get_callbacks(self) -> list[Callback]:
        return self._input.get_callbacks()[1:]  # without its reset, which `_reset_state` of this input calls

    def _reset_state(self) -> None:
        self._input.reset_state()

    @property
    def converter(self) -> DatapointConverter | None:
        """The inner input's converter."""
        return self._input.converter

    def meters(self) -> list[Meter]:
        """Return those of the inner input."""
        return self._input.meters()

    def _size(self) -> int:
        return self._input.size()

    def require_exact_size(self) -> None:
        """Call the method of the inner input."""
        self._input.require_exact_size()
