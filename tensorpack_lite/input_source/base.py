"""
What brings datapoints into the graph: the contract of every InputSource, and those around another one.

In:  a model's signature (a list of `TensorSpec`), and datapoints.
Out: for each tower, a list of tensors that match the signature; callbacks that keep the data flowing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from ..compat import TensorSpec, ensure_graph_mode
from ..compat import tfv1 as tf
from ..dataflow.base import LengthUnknownError
from ..loop.callback import Callback, CallbackFactory
from ..tfutils.placeholder import build_or_reuse_placeholder
from ..utils.errors import type_error

__all__ = [
    "FeedfreeInput",
    "InputSource",
    "ProxyInputSource",
    "RemappedInput",
    "get_sublist_by_names",
    "get_tensors_inputs",
    "remap_input_source",
]


class InputSource(ABC):
    """
    Brings datapoints into the graph.

    Its life: `setup` once, while the graph is built; `get_input_tensors` once for each tower; the callbacks take part in
    training; `reset_state` where the data is to begin anew. A subclass overrides the methods with an underscore.

    Note: the callbacks may use `setup_graph`, `before_train`, `after_train`, `before_run`, `after_run` and
    `background_error` and `interrupt` only, and not their `trainer`: a FeedfreePredictor has none.

    tensorpack: same.
    """

    _setup_done = False
    _callbacks: list[Callback] | None = None
    _name_scope: str | None = None

    # What a subclass overrides ---------------------------------------------------------------------------------------
    def _setup(self, input_signature: Sequence[Any]) -> None:  # noqa: B027 (may be left as it is)
        """Create what all towers share."""

    @abstractmethod
    def _get_input_tensors(self) -> Sequence[Any]:
        """Create the input tensors of one tower: a datapoint of its own, unless they are placeholders."""

    def _get_callbacks(self) -> list[Callback]:
        """Give the callbacks that training with this input needs."""
        return []

    def _reset_state(self) -> None:  # noqa: B027 (may be left as it is)
        """Begin the data anew; there is a default session."""

    def _size(self) -> int:
        """Give the number of datapoints in one pass, each as one tower takes it."""
        raise LengthUnknownError(
            f"{type(self).__name__}: does not know how many datapoints it has. For training, pass "
            "TrainConfig(steps_per_epoch=...)."
        )

    # What trainers, runners and predictors call ----------------------------------------------------------------------
    def setup(self, input_signature: Sequence[Any]) -> list[Callback]:
        """
        Create what all towers share.

        Args:
            input_signature: the model's inputs, a list of `TensorSpec` with names.

        Returns:
            The callbacks, as `get_callbacks` does.

        Raises:
            RuntimeError: called before.
        """
        if self._setup_done:
            raise RuntimeError(
                f"{type(self).__name__}.setup: was called before. Make a new one for each use, e.g. one for training and "
                "one for validation."
            )
        ensure_graph_mode()
        self._setup(input_signature)
        self._setup_done = True
        return self.get_callbacks()

    def setup_done(self) -> bool:
        """Tell whether `setup` has been called."""
        return self._setup_done

    def get_callbacks(self) -> list[Callback]:
        """
        Give the callbacks without which this input does not work, the same ones at each call.

        Returns:
            A list of callbacks, none of them only for the chief. The first resets this input in `before_train`.

        Raises:
            RuntimeError: before `setup`.
        """
        if not self._setup_done:
            raise RuntimeError(f"{type(self).__name__}.get_callbacks: call setup(input_signature) first.")
        if self._callbacks is None:
            reset = CallbackFactory(before_train=lambda _: self.reset_state())
            self._callbacks = [cb.set_chief_only(False) for cb in [reset, *self._get_callbacks()]]
        return self._callbacks

    def get_input_tensors(self) -> Sequence[Any]:
        """
        Create the input tensors of one tower.

        Returns:
            Tensors that match the signature. Another call gives tensors with another datapoint; only an input
            that is fed gives the same placeholders.
        """
        return self._get_input_tensors()

    def reset_state(self) -> None:
        """Begin the data anew, as far as this kind of input can. Needs a default session."""
        self._reset_state()

    def size(self) -> int:
        """
        Give the number of datapoints in one pass.

        Raises:
            LengthUnknownError: it is not known.
        """
        return self._size()

    def require_exact_size(self) -> None:  # noqa: B027 (may be left as it is)
        """
        Make it an error if a pass of the data has fewer datapoints than `size` says.

        An inference runner calls it before `setup`. Only an input that repeats its data has to do something: at the end of
        the data, others end, and the runner sees that.
        """

    @contextmanager
    def cached_name_scope(self) -> Iterator[str]:
        """
        Open the name scope of this input: named after its class (without leading underscores), made where it is first entered, later the same one.

        Yields:
            The scope, e.g. "QueueInput/".
        """
        with tf.name_scope(self._name_scope or type(self).__name__.lstrip("_")) as scope:
            self._name_scope = scope
            yield scope


class FeedfreeInput(InputSource):
    """
    Base of inputs that need no feed: the data is in the graph, each tower has its own.

    tensorpack: same.
    """


class ProxyInputSource(InputSource):
    """
    An input around another one: it passes everything on. Made to be inherited from.

    Args:
        input: the inner input.

    Raises:
        TypeError: it is no InputSource.

    tensorpack: same; there the inner input is reset twice in `before_train`.
    """

    def __init__(self, input: InputSource) -> None:
        if not isinstance(input, InputSource):
            raise type_error(type(self).__name__, "an InputSource", input)
        self._input = input

    def _setup(self, input_signature: Sequence[Any]) -> None:
        self._input.setup(input_signature)

    def _get_input_tensors(self) -> Sequence[Any]:
        return self._input.get_input_tensors()

    def _get_callbacks(self) -> list[Callback]:
        return self._input.get_callbacks()[1:]  # without its reset: resetting this input does it

    def _reset_state(self) -> None:
        self._input.reset_state()

    def _size(self) -> int:
        return self._input.size()

    def require_exact_size(self) -> None:
        """Pass on to the inner input."""
        self._input.require_exact_size()


class RemappedInput(ProxyInputSource):
    """
    What `remap_input_source` returns: the inner input gives some of the model's inputs, placeholders are the others.

    It says that it is of the inner input's class, because that class tells how it brings its data: `isinstance(x,
    QueueInput)` is true around a QueueInput. Attributes it has not are the inner input's.
    """

    def __init__(self, input: InputSource, names: Sequence[str]) -> None:
        ProxyInputSource.__init__(self, input)
        self._names = list(names)

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return self._input.__class__

    def __getattr__(self, name: str) -> Any:
        if name == "_input":  # not there yet: a copy is being made
            raise AttributeError(name)
        return getattr(self._input, name)

    def _setup(self, input_signature: Sequence[Any]) -> None:
        self._signature = list(input_signature)
        self._input.setup(get_sublist_by_names(self._signature, self._names))

    def _get_input_tensors(self) -> Sequence[Any]:
        placeholders = [build_or_reuse_placeholder(spec) for spec in self._signature]
        return get_tensors_inputs(placeholders, self._input.get_input_tensors(), self._names)


def remap_input_source(input: InputSource, names: Sequence[str]) -> InputSource:
    """
    Let an input give only some of a model's inputs, in an order of its own; the others become placeholders to be fed.

    Args:
        input: an input that has not been set up.
        names: for each component of `input`, the name of the model's input that it is.

    Returns:
        An InputSource around `input`; `isinstance` finds the class of `input`.

    Raises:
        ValueError: at its `setup`: the model has no input of that name.

    Example:
        >>> # the model's inputs are image1, label, image2; df yields [label, image1]
        >>> remap_input_source(QueueInput(df), ["label", "image1"])   # image2 is fed by a callback

    tensorpack: same; there the result has no attributes of `input`, such as `queue`.
    """
    return RemappedInput(input, names)


def get_sublist_by_names(lst: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """
    Pick items by their name.

    Args:
        lst: objects with a `name`, e.g. `TensorSpec` or placeholders.
        names: the wanted ones, in the wanted order.

    Returns:
        A list as long as `names`.

    Raises:
        ValueError: a name is not in `lst`.

    tensorpack: same.
    """
    return [lst[index] for index in _positions(lst, names)]


def get_tensors_inputs(
    placeholders: Sequence[Any], tensors: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """
    Put tensors in the place of the placeholders of these names.

    Args:
        placeholders: of all inputs.
        tensors: what replaces some of them.
        names: for each of `tensors`, the name of the placeholder it replaces.

    Returns:
        A list as long as `placeholders`.

    Raises:
        ValueError: not as many `names` as `tensors`, or an unknown name.

    tensorpack: same.
    """
    if len(tensors) != len(names):
        raise ValueError(
            f"get_tensors_inputs: got {len(tensors)} tensors and {len(names)} names ({list(names)})."
        )
    inputs = list(placeholders)
    for index, tensor in zip(_positions(placeholders, names), tensors):
        inputs[index] = tensor
    return inputs


def _positions(items: Sequence[Any], names: Sequence[str]) -> list[int]:
    known = [item.name if isinstance(item, TensorSpec) else item.op.name for item in items]
    for name in names:
        if name not in known:
            raise ValueError(
                f"remap_input_source: the model has no input '{name}', it has {', '.join(known)}."
            )
    return [known.index(name) for name in names]
