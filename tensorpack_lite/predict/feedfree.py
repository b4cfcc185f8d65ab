"""A predictor that gets its datapoints by itself, from an InputSource."""

from __future__ import annotations

from typing import Any, Sequence

from ..input_source.base import InputSource
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..tfutils.common import get_tensors_by_names
from ..tfutils.tower.context import PredictTowerContext
from ..utils.errors import type_error
from .base import PredictorBase
from .config import PredictConfig

__all__ = ["FeedfreePredictor"]


class FeedfreePredictor(PredictorBase):
    """
    A predictor with a graph, a session and an input of its own; it is called without arguments.

    Args:
        config: model, variables and outputs; its `input_names` mean nothing here.
        input_source: an InputSource that nobody else uses.

    Attributes:
        graph: its graph; not finalized.
        sess: its session.

    Raises:
        TypeError: `input_source` is no InputSource.
        ValueError: `config.return_input` is true, or a call has arguments.
        KeyError: a name is not in the graph; names the nearest ones.
        RuntimeError: on a call: it is closed.

    Example:
        >>> predictor = FeedfreePredictor(config, QueueInput(df))
        >>> outputs = [predictor() for _ in range(len(df))]
        >>> predictor.close()

    Note: when the input ends, or its data fails, a call raises that. The input's callbacks have no trainer here.

    tensorpack: same; there it cannot be closed.
    """

    def __init__(self, config: PredictConfig, input_source: InputSource) -> None:
        if not isinstance(input_source, InputSource):
            raise type_error("FeedfreePredictor", "an InputSource", input_source, "Wrap it: QueueInput(df).")
        if config.return_input:
            raise ValueError(
                "FeedfreePredictor: config has return_input=True, but the input is in the graph."
            )
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            self._callbacks = Callbacks(input_source.setup(config.input_signature))
            with PredictTowerContext(""):
                config.tower_func(*input_source.get_input_tensors())
            self._outputs = get_tensors_by_names(config.output_names)
            # The input's callbacks ask for no trainer: InputSource says so.
            self._callbacks.setup_graph(None)  # type: ignore[arg-type]
            self._closed = False
            with config._new_session() as self.sess, self.sess.as_default():
                self._hooked_sess = HookedSession(self.sess, self._callbacks.get_hooks())
                self._callbacks.before_train()

    def close(self) -> None:
        """Stop the input, its threads among it, and close the session. Doing it again changes nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with self.graph.as_default(), self.sess.as_default():
                self._callbacks.after_train()
        finally:
            self._hooked_sess.close()

    def _do_call(self, dp: Sequence[Any]) -> list[Any]:
        if dp:
            raise ValueError(
                f"FeedfreePredictor: called with {len(dp)} components, but its input is in the graph."
            )
        if self._closed:
            raise RuntimeError("FeedfreePredictor: it is closed. Make a new one.")
        with self.graph.as_default(), self.sess.as_default():  # as in a trainer's loop
            return self._hooked_sess.run(self._outputs)  # type: ignore[no-any-return]
