"""
The InputSource interface, and the base class of its wrappers.

In:  a model's signature (a list of `TensorSpec`), and datapoints.
Out: for each tower, a list of tensors that match the signature; callbacks that supply the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Iterator, Sequence

from ..compat import ensure_graph_mode
from ..compat import tfv1 as tf
from ..dataflow.base import LengthUnknownError
from ..loop.callback import Callback
from ..utils.errors import type_error
from .flow import InputInfo
from .reset import ResetInput


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
    _input_info: InputInfo | None = None

    @property
    def flow(self) -> InputInfo:
        """Facts about the datapoints on their way into this input. Inputs around it share the object."""
        if self._input_info is None:
            self._input_info = InputInfo(type(self).__name__)
        return self._input_info

    # Methods for subclasses to override ------------------------------------------------------------------------------
    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        """Create the operations that all towers share."""

    @abstractmethod
    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        """Create the input tensors of one tower. Unless they are placeholders, each tower gets a different datapoint."""

    def _get_callbacks(self) -> list[Callback]:
        """Return the callbacks that supply the data."""
        return []

    def _reset_state(self) -> None:
        """Restart the data. A default session exists."""

    def _size(self) -> int:
        """Return the number of datapoints in one pass, as a single tower takes them."""
        raise LengthUnknownError(
            f"{type(self).__name__}: the number of datapoints is unknown. For training, pass "
            "TrainConfig(steps_per_epoch=...)."
        )

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
        self.flow.begin(type(self).__name__)
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
        return self._get_input_tensors()

    def reset_state(self) -> None:
        """Restart the data, if this kind of input can. Needs a default session."""
        self._reset_state()

    def size(self) -> int:
        """
        Return the number of datapoints in one pass.

        Raises:
            NotImplementedError: the number is unknown.
        """
        return self._size()

    def require_exact_size(self) -> None:
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

    @property
    def flow(self) -> InputInfo:
        """That of the inner input."""
        return self._input.flow

    def _setup(self, input_signature: Sequence[tf.TensorSpec]) -> None:
        self._input.setup(input_signature)

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        return self._input.get_input_tensors()

    def _get_callbacks(self) -> list[Callback]:
        return self._input.get_callbacks()[1:]  # without its reset, which `_reset_state` of this input calls

    def _reset_state(self) -> None:
        self._input.reset_state()

    def _size(self) -> int:
        return self._input.size()

    def require_exact_size(self) -> None:
        """Call the method of the inner input."""
        self._input.require_exact_size()
