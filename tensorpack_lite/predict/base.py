"""Predictors: a datapoint in, a list of arrays out."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import private
from ..compat import tfv1 as tf
from ..input_source.placeholder import PlaceholderInput
from ..tfutils.common import get_tensors_by_names
from ..tfutils.tower.context import PredictTowerContext
from .config import PredictConfig

__all__ = ["AsyncPredictorBase", "OfflinePredictor", "OnlinePredictor", "PredictorBase"]


class PredictorBase(ABC):
    """
    Something that is called with the components of a datapoint and returns its outputs.

    Attributes:
        return_input: with True, a call returns `(datapoint, outputs)`.

    tensorpack: same.
    """

    return_input = False

    def __call__(self, *dp: Any) -> Any:
        """
        Predict one datapoint.

        Args:
            *dp: its components.

        Returns:
            A list of outputs; `(dp, outputs)` if `return_input`.
        """
        output = self._do_call(dp)
        return (dp, output) if self.return_input else output

    @abstractmethod
    def _do_call(self, dp: Sequence[Any]) -> Any:
        """Give the outputs of a datapoint."""


class AsyncPredictorBase(PredictorBase):
    """
    A predictor that takes datapoints now and gives outputs later. A plain call waits for its output.

    tensorpack: same.
    """

    @abstractmethod
    def put_task(self, dp: Sequence[Any], callback: Callable[[Any], None] | None = None) -> Any:
        """
        Hand in a datapoint.

        Args:
            dp: its components.
            callback: called with the future when it is done.

        Returns:
            A `concurrent.futures.Future` of the outputs.
        """

    @abstractmethod
    def start(self) -> None:
        """Start working."""

    def _do_call(self, dp: Sequence[Any]) -> Any:
        return self.put_task(dp).result()


class OnlinePredictor(PredictorBase):
    """
    A predictor in an existing graph and session.

    It works in the raw session: no hooks, no step counted. Several threads may share one.

    Args:
        input_tensors: what to feed: tensors or names, of placeholders or of any other tensor that can be fed.
        output_tensors: what to evaluate: tensors, variables or names. The name of a variable means its value.
        return_input: with True, a call returns `(datapoint, outputs)`.
        sess: the session; None means the one that is the default at the first call, from then on.

    Attributes:
        input_tensors, output_tensors, return_input: as given.
        sess: the session, None as long as there is none; trainers set it.

    Raises:
        RuntimeError: called without a session.
        ValueError: called with a wrong number of components, or a shape that does not fit.
        KeyError: a name is not in the graph; names the nearest ones.

    Example:
        >>> predictor = OnlinePredictor(["image"], ["probability"], sess=sess)
        >>> (probability,) = predictor(image)                   # image [1, 28, 28] float32

    Note: components are converted as `Session.run` does it, so floats fed to an integer input lose their fraction.

    tensorpack: same; there it cannot be used without `sess` on TF 2.
    """

    def __init__(
        self,
        input_tensors: Sequence[Any],
        output_tensors: Sequence[Any],
        return_input: bool = False,
        sess: Any = None,
    ) -> None:
        self.input_tensors = list(input_tensors)
        self.output_tensors = list(output_tensors)
        self.return_input = return_input
        self.sess = sess
        self._prepared: _Prepared | None = None
        self._lock = threading.Lock()
        if sess is not None:
            self._prepared = _Prepared(sess, self.input_tensors, self.output_tensors)

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        prepared = self._prepared
        if prepared is None or prepared.session is not self.sess:
            prepared = self._prepare()
        return prepared.run(dp)

    def _prepare(self) -> _Prepared:
        with self._lock:
            if self.sess is None:
                self.sess = tf.get_default_session()
            if self.sess is None:
                raise RuntimeError(
                    f"{type(self).__name__}: has no session. Pass sess=..., or call it under `with sess.as_default():`; a "
                    "trainer's predictors get theirs before `_before_train`."
                )
            if self._prepared is None or self._prepared.session is not self.sess:
                self._prepared = _Prepared(self.sess, self.input_tensors, self.output_tensors)
            return self._prepared


class OfflinePredictor(OnlinePredictor):
    """
    A predictor with a graph and a session of its own: builds the model, loads the variables.

    The tower has no name, so tensors are called as the model calls them, and variables as in training.

    Args:
        config: model, variables, inputs and outputs. `input_names` may be any tensors that can be fed, `output_names` any.

    Attributes:
        graph: its graph; not finalized.
        sess: its session; close it when the predictor is no longer needed.

    Raises:
        KeyError: a name is not in the graph; names the nearest ones.

    Example:
        >>> predict = OfflinePredictor(PredictConfig(
        ...     model=Model(), session_init=SmartInit("train_log/checkpoint"),
        ...     input_names=["image"], output_names=["probability"]))
        >>> (probability,) = predict(image)

    tensorpack: same.
    """

    def __init__(self, config: PredictConfig) -> None:
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            inputs = PlaceholderInput()
            inputs.setup(config.input_signature)
            with PredictTowerContext(""):
                config.tower_func(*inputs.get_input_tensors())
            input_tensors = get_tensors_by_names(config.input_names)
            output_tensors = get_tensors_by_names(config.output_names)
            with config._new_session() as sess:
                super().__init__(input_tensors, output_tensors, config.return_input, sess)


class _Prepared:
    """The step of a predictor in one session, ready to run."""

    def __init__(self, session: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.session = session
        with session.graph.as_default():
            self._inputs = [_Input(tensor) for tensor in _find(inputs)]
            fetches = _find(outputs)
        # What is fed is not computed: its value is the output.
        fed = {one.tensor.name: position for position, one in enumerate(self._inputs)}
        self._fed = [(i, fed[tensor.name]) for i, tensor in enumerate(fetches) if tensor.name in fed]
        computed = [tensor for tensor in fetches if tensor.name not in fed]
        self._call: Any = None
        if computed:
            self._call = private.make_callable(session, computed, (), [one.tensor for one in self._inputs])

    def run(self, dp: Sequence[Any]) -> list[Any]:
        if len(dp) != len(self._inputs):
            raise ValueError(
                f"Predictor: called with {len(dp)} components, wanted {len(self._inputs)} "
                f"({', '.join(one.tensor.op.name for one in self._inputs)})."
            )
        arrays = [one.convert(value) for one, value in zip(self._inputs, dp)]
        outputs = list(self._call(*arrays)) if self._call is not None else []
        for index, position in self._fed:
            outputs.insert(index, arrays[position])
        return outputs


class _Input:
    """A tensor that is fed: converts as `Session.run` does."""

    def __init__(self, tensor: Any) -> None:
        if not tensor.graph.is_feedable(tensor):
            raise ValueError(
                f"Predictor: {tensor.name} cannot be fed. Use a placeholder or the output of an operation."
            )
        self.tensor = tensor
        self._dtype = tensor.dtype.as_numpy_dtype
        self._good_shape: Any = None

    def convert(self, value: Any) -> np.ndarray:
        array = np.asarray(value, dtype=self._dtype)
        if array.shape != self._good_shape:
            self._check_shape(array)
        return array

    def _check_shape(self, array: np.ndarray) -> None:
        if not self.tensor.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"Predictor: '{self.tensor.op.name}' got shape {array.shape}, wanted {self.tensor.shape}."
            )
        self._good_shape = array.shape


def _find(tensors: Sequence[Any]) -> list[Any]:
    """Tensors stay; names and variables are looked up, so that a variable means its value."""
    return [t if isinstance(t, tf.Tensor) else get_tensors_by_names([_name_of(t)])[0] for t in tensors]


def _name_of(tensor: Any) -> str:
    return tensor if isinstance(tensor, str) else tensor.name
