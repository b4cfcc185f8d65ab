"""The predictor interfaces, and predictors for one datapoint at a time."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Any, Callable, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..compat.session import require_own_process
from ..tfutils.common import get_tensors_by_names
from ..tfutils.feed import FeedConverter
from ..tfutils.fetches import prepare_run
from ..utils.checks import check_type
from .config import PredictConfig

__all__ = ["AsyncPredictorBase", "OfflinePredictor", "OnlinePredictor", "PredictorBase"]


class PredictorBase(ABC):
    """
    Interface of predictors: callable with the components of a datapoint.

    Attributes:
        return_input: if True, a call returns `(datapoint, outputs)`.
    """

    return_input = False

    def __call__(self, *dp: object) -> Any:
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
    def _do_call(self, dp: Sequence[object]) -> Any:
        """Return the outputs for a datapoint."""


class AsyncPredictorBase(PredictorBase):
    """Interface of predictors that return futures. A plain call waits for its outputs."""

    @abstractmethod
    def put_task(self, dp: Sequence[object], callback: Callable[[Future[Any]], None] | None = None) -> Future[Any]:
        """
        Submit a datapoint.

        Args:
            dp: its components.
            callback: called with the future when the future is done.

        Returns:
            A `concurrent.futures.Future` of the outputs.
        """

    @abstractmethod
    def start(self) -> None:
        """Start the workers."""

    def _do_call(self, dp: Sequence[object]) -> Any:
        return self.put_task(dp).result()


class OnlinePredictor(PredictorBase):
    """
    Predictor in an existing graph and session.

    It uses the raw session, so no hooks run and no step is counted. It is thread-safe.

    Args:
        input_tensors: tensors or names of tensors to feed. Any tensor that can be fed is accepted, not only
            placeholders.
        output_tensors: tensors, variables or names to evaluate. The name of a variable means its value.
        return_input: if True, a call returns `(datapoint, outputs)`.
        sess: the session. None: the default session at the first call, for all calls.

    Attributes:
        input_tensors, output_tensors, return_input: as given.
        sess: the session, or None before it is known. Trainers set it.

    Raises:
        RuntimeError: called without a session.
        ValueError: called with a wrong number of components or a wrong shape.
        KeyError: a name is not in the graph. The message lists the nearest names.

    Example:
        >>> predictor = OnlinePredictor(["image"], ["probability"], sess=sess)
        >>> (probability,) = predictor(image)                   # image [1, 28, 28] float32

    Note: components are converted as `Session.run` does, which truncates floats that are fed to an integer input.
    """

    def __init__(
        self,
        input_tensors: Sequence[tf.Tensor | str],
        output_tensors: Sequence[tf.Tensor | tf.Variable | str],
        return_input: bool = False,
        sess: tf.Session | None = None,
    ) -> None:
        self.input_tensors = list(input_tensors)
        self.output_tensors = list(output_tensors)
        self.return_input = return_input
        self.sess = sess
        self._step: _Evaluation | None = None
        self._lock = threading.Lock()
        if sess is not None:
            self._step = _Evaluation(sess, self.input_tensors, self.output_tensors)

    def _do_call(self, dp: Sequence[object]) -> list[np.ndarray]:
        step = self._step
        if step is None or step.session is not self.sess:
            step = self._prepare()
        return step.run(dp)

    def _prepare(self) -> _Evaluation:
        # before the lock, which another thread may have held at the fork
        require_own_process(type(self).__name__)
        with self._lock:
            if self.sess is None:
                self.sess = tf.get_default_session()
            if self.sess is None:
                raise RuntimeError(
                    f"{type(self).__name__}: there is no session. Pass sess=..., or call it under "
                    "`with sess.as_default():`. The predictors of a trainer have a session from `_before_train` on."
                )
            if self._step is None or self._step.session is not self.sess:
                self._step = _Evaluation(self.sess, self.input_tensors, self.output_tensors)
            return self._step


class OfflinePredictor(OnlinePredictor):
    """
    Predictor that builds a model in a new graph, creates a session and loads the variables.

    The tower has no name, so tensors have the names that the model gives them, and variables those of training.

    Args:
        config: model, variables, inputs and outputs. `input_names` may name any tensors that can be fed, and
            `output_names` any tensors.

    Attributes:
        graph: its graph; not finalized.
        sess: its session. Close it when the predictor is no longer needed.

    Raises:
        TypeError: `config` is not a PredictConfig.
        KeyError: a name is not in the graph. The message lists the nearest names.

    Example:
        >>> predict = OfflinePredictor(PredictConfig(
        ...     model=Model(), session_init=SmartInit("train_log/checkpoint"),
        ...     input_names=["image"], output_names=["probability"]))
        >>> (probability,) = predict(image)
    """

    def __init__(self, config: PredictConfig) -> None:
        check_type("OfflinePredictor: config", config, PredictConfig)
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            inputs, outputs = config._build_model()
            with config._new_session(outputs, inputs) as sess:
                super().__init__(inputs, outputs, config.return_input, sess)


class _Evaluation:
    """The inputs and outputs of a predictor, ready to run in one session."""

    def __init__(
        self,
        session: tf.Session,
        inputs: Sequence[tf.Tensor | str],
        outputs: Sequence[tf.Tensor | tf.Variable | str],
    ) -> None:
        self.session = session
        with session.graph.as_default():
            feeds, fetches = _find(inputs), _find(outputs)
        for tensor in feeds:
            if not session.graph.is_feedable(tensor):
                raise ValueError(
                    f"Predictor: {tensor.name} cannot be fed. Use a placeholder or the output of an operation."
                )
        self.shapes = [tensor.shape for tensor in feeds]
        self._names = [tensor.op.name for tensor in feeds]
        self._conversions = [
            FeedConverter(f"Predictor: '{t.op.name}'", t.dtype, t.shape, batch_advice="add it with x[None].").convert
            for t in feeds
        ]
        # A tensor that is fed is not computed; its value is copied to the outputs.
        position_of_feed = {tensor.name: position for position, tensor in enumerate(feeds)}
        positions = [position_of_feed.get(tensor.name) for tensor in fetches]
        self._fed = [(index, position) for index, position in enumerate(positions) if position is not None]
        computed = [tensor for tensor in fetches if tensor.name not in position_of_feed]
        self._call = prepare_run("Predictor", session, computed, (), feeds) if computed else None

    def run(self, dp: Sequence[object]) -> list[np.ndarray]:
        if len(dp) != len(self._conversions):
            raise ValueError(
                f"Predictor: the number of components is wrong (expected {len(self._names)}: {', '.join(self._names)}, got "
                f"{len(dp)})."
            )
        arrays = [convert(value) for convert, value in zip(self._conversions, dp)]
        outputs = list(self._call(*arrays)) if self._call is not None else []
        for index, position in self._fed:
            outputs.insert(index, arrays[position])
        return outputs


def _find(tensors: Sequence[tf.Tensor | tf.Variable | str]) -> list[tf.Tensor]:
    """Return tensors. Names and variables are looked up, so that a variable means its value."""
    found = [t if isinstance(t, (tf.Tensor, str)) else t.name for t in tensors]
    return [get_tensors_by_names([t])[0] if isinstance(t, str) else t for t in found]
