"""Averaged weights: kept while training goes on, and put in place for inference and saving."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np

from ..compat import tfv1 as tf
from ..loop.callback import Callback, ProxyCallback
from ..tfutils.varmanip import SessionUpdate
from ..utils import logger
from .trigger import PeriodicTrigger

__all__ = ["EMAWeights", "SwapEMAWeights"]

_NAME = "ExponentialMovingAverage"


class EMAWeights(Callback):
    """
    Keep an exponential moving average of every trainable variable, updated in the graph after each step.

    average = d * average + (1 - d) * variable, with d = min(decay, (1 + n) / (10 + n)) after n updates, so that early
    averages follow the weights closely. The average begins as the variable's value when training begins; a
    training that resumes goes on with the averages it saved. Use `SwapEMAWeights` to validate and save with them.

    Args:
        decay: how much of the average stays in each step, in [0, 1); 0.999 or 0.9999 are usual.

    Raises:
        ValueError: `decay` is out of range, or in `setup_graph`, there is nothing to average.

    Variables: `<variable>/ExponentialMovingAverage` for each trainable variable of floating point, and the number of
    updates, `ExponentialMovingAverage/num_updates`; in `GLOBAL_VARIABLES`, so a `ModelSaver` that comes after this
    callback saves them. The names are those of `tf.train.ExponentialMovingAverage`.

    Runs at: setup_graph, before_train, trigger_step.

    Example:
        >>> ema = EMAWeights(0.999)
        >>> callbacks = [ema, ModelSaver(), SwapEMAWeights(InferenceRunner(data, ScalarStats("cost")), ema)]
    """

    def __init__(self, decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"EMAWeights: decay is {decay}, wanted a number in [0, 1).")
        self.decay = decay
        self.is_swapped = False
        self._pairs: list[tuple[Any, Any]] = []

    def _setup_graph(self) -> None:
        variables = _averaged_variables()
        if not variables:
            raise ValueError("EMAWeights: there is no trainable variable of floating point to average.")
        self._num_updates = tf.get_variable(
            f"{_NAME}/num_updates", initializer=np.int64(0), trainable=False, use_resource=True
        )
        self._pairs = [(variable, _make_average(variable)) for variable in variables]
        self._update = self._build_update()
        # Added to 0, not assigned: the average must not share a buffer with a variable that is updated in place.
        self._begin = tf.group(*[average.assign_add(variable - average) for variable, average in self._pairs])
        self._put_averages = tf.group(*[variable.assign(average) for variable, average in self._pairs])
        logger.info("EMAWeights: averages %d variables with decay %g.", len(self._pairs), self.decay)

    def _build_update(self) -> Any:
        num_done = tf.cast(self._num_updates.read_value(), tf.float32)
        decay = tf.minimum(self.decay, (1.0 + num_done) / (10.0 + num_done))
        updates = []
        for variable, average in self._pairs:
            share = tf.cast(1.0 - decay, average.dtype.base_dtype)
            updates.append(average.assign_sub(share * (average.read_value() - variable), read_value=False))
        with tf.control_dependencies(updates):
            return self._num_updates.assign_add(1, read_value=False)

    def _before_train(self) -> None:
        session = self.trainer.sess
        if session.run(self._num_updates) == 0:
            session.run(self._begin)
        self._run_update = session.make_callable(self._update)

    def _trigger_step(self) -> None:
        # In a run of its own: within the step's run, the average would race with the optimizer.
        self._run_update()

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """
        Put the averages in place of the weights, inside the context; the weights wait in the host's memory.

        Raises:
            RuntimeError: they are in place already.
        """
        if self.is_swapped:
            raise RuntimeError(
                "EMAWeights: the averages are in place already. Put one SwapEMAWeights around it."
            )
        session = self.trainer.sess
        weights = {
            variable.name: np.array(value)
            for (variable, _), value in zip(self._pairs, session.run([v for v, _ in self._pairs]))
        }
        session.run(self._put_averages)
        self.is_swapped = True
        try:
            yield
        finally:
            SessionUpdate(session, [variable for variable, _ in self._pairs]).update(weights)
            self.is_swapped = False


class SwapEMAWeights(ProxyCallback):
    """
    Let a callback do its work with the averaged weights in place, and put the weights of training back afterwards.

    Around an `InferenceRunner`, it validates the averages. Around a `ModelSaver` with a directory of its own, it saves
    checkpoints whose ordinary variables hold the averages, for prediction; to resume training, load the others.

    Args:
        cb: the callback; its `trigger` and `trigger_epoch` see the averages. A `PeriodicTrigger` goes around the two.
        ema: the `EMAWeights`, which comes before this one among the callbacks.

    Raises:
        TypeError: of another kind, or `cb` is a `PeriodicTrigger`.

    Runs at: whatever the inner one does.

    Example:
        >>> SwapEMAWeights(ModelSaver(checkpoint_dir="train_log/averaged"), ema)
    """

    def __init__(self, cb: Callback, ema: EMAWeights) -> None:
        super().__init__(cb)
        if isinstance(cb, PeriodicTrigger):
            raise TypeError(
                "SwapEMAWeights: takes the callback itself, got a PeriodicTrigger, which triggers it at other moments. "
                "Write PeriodicTrigger(SwapEMAWeights(callback, ema), ...)."
            )
        if not isinstance(ema, EMAWeights):
            raise TypeError(f"SwapEMAWeights: ema is {type(ema).__name__}, wanted an EMAWeights.")
        self.ema = ema

    def _trigger_epoch(self) -> None:
        with self.ema.swapped():
            self.cb.trigger_epoch()

    def _trigger(self) -> None:
        with self.ema.swapped():
            self.cb.trigger()


def _averaged_variables() -> list[Any]:
    """The trainable variables of floating point; of towers with variables of their own, the first one's."""
    saved = {id(variable) for variable in tf.global_variables()}
    return [v for v in tf.trainable_variables() if id(v) in saved and v.dtype.base_dtype.is_floating]


def _make_average(variable: Any) -> Any:
    return tf.get_variable(
        f"{variable.op.name}/{_NAME}",
        shape=variable.shape,
        dtype=variable.dtype.base_dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
        collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MOVING_AVERAGE_VARIABLES],
    )
