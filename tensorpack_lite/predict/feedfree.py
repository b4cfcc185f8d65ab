"""Predictor that reads datapoints from an InputSource."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ..input_source.base import InputSource
from ..loop.group import Callbacks
from ..loop.session import HookedSession
from ..tfutils.common import get_tensors_by_names
from ..tfutils.tower.context import PredictTowerContext
from ..utils.checks import check_type
from .base import PredictorBase
from .config import PredictConfig


class FeedfreePredictor(PredictorBase):
    """
    Predictor that reads its datapoints from an InputSource, and is called without arguments.

    Args:
        config: model, variables and outputs; `input_names` is ignored.
        input_source: an InputSource that is not used elsewhere.

    Attributes:
        graph: its graph; not finalized.
        sess: its session.

    Raises:
        TypeError: `input_source` is not an InputSource.
        ValueError: `config.return_input` is True, or a call has arguments.
        KeyError: a name is not in the graph. The message lists the nearest names.
        RuntimeError: called after `close`.

    Example:
        >>> predictor = FeedfreePredictor(config, QueueInput(df))
        >>> outputs = [predictor() for _ in range(len(df))]
        >>> predictor.close()

    Note: a call raises the end of the data, and the errors of the DataFlow. The callbacks of the input have no trainer.
    """

    def __init__(self, config: PredictConfig, input_source: InputSource) -> None:
        check_type("FeedfreePredictor: input_source", input_source, InputSource, advice="Wrap it: QueueInput(df).")
        if config.return_input:
            raise ValueError(
                "FeedfreePredictor: config has return_input=True, but the input comes from the graph. Use "
                "return_input=False."
            )
        self.graph = config._maybe_create_graph()
        with self.graph.as_default():
            self._callbacks = Callbacks(input_source.setup(config.input_signature))
            with PredictTowerContext(""):
                inputs = input_source.get_input_tensors()
                config.tower_func(*inputs)
            self._outputs = get_tensors_by_names(config.output_names)
            # The InputSource interface forbids its callbacks to use a trainer.
            self._callbacks.setup_graph(None)  # type: ignore[arg-type]
            self._closed = False
            with config._new_session(self._outputs, inputs) as self.sess, self.sess.as_default():
                self._hooked_sess = HookedSession(self.sess, self._callbacks.get_hooks())
                self._callbacks.before_train()

    def close(self) -> None:
        """Stop the input and its threads, and close the session. Further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with self.graph.as_default(), self.sess.as_default():
                self._callbacks.after_train()
        finally:
            self._hooked_sess.close()

    def _do_call(self, dp: Sequence[object]) -> list[np.ndarray]:
        if dp:
            raise ValueError(
                f"FeedfreePredictor: the input comes from the graph (expected no components, got {len(dp)})."
            )
        if self._closed:
            raise RuntimeError("FeedfreePredictor: the predictor is closed. Create a new one.")
        with self.graph.as_default(), self.sess.as_default():  # callbacks expect both, as in a trainer's loop
            return self._hooked_sess.run(self._outputs)
