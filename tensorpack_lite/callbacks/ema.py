"""Callbacks that average the weights during training, and swap the averages in for inference and saving."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np

from ..compat import tfv1 as tf
from ..compat.variables import save_like
from ..loop.callback import Callback
from ..loop.proxy_callback import ProxyCallback
from ..tfutils.tower.copies import update_copies
from ..tfutils.varmanip import SessionUpdate
from ..utils import logger
from ..utils.checks import check_fraction, check_type
from .trigger import PeriodicTrigger

_NAME = "ExponentialMovingAverage"


class EMAWeights(Callback):
    """
    Callback that keeps an exponential moving average of every trainable variable, updated in the graph after each step.

    average = d * average + (1 - d) * variable, with d = min(decay, (1 + n) / (10 + n)) after n updates, so that early
    averages follow the weights closely. The initial average is the variable's value when training starts; a
    resumed training continues with the averages in the checkpoint. Use `SwapEMAWeights` to validate and save
    with the averages.

    Args:
        decay: weight of the old average in each step, in [0, 1); 0.999 and 0.9999 are common.

    Raises:
        ValueError: `decay` is out of range; in `setup_graph`: no variable can be averaged.

    Variables: `<variable>/ExponentialMovingAverage` for each trainable floating-point variable, and the
    number of updates, `ExponentialMovingAverage/num_updates`. They are in `GLOBAL_VARIABLES`, so a
    `ModelSaver` after this callback saves them. The names are those of `tf.train.ExponentialMovingAverage`.

    Runs at: setup_graph, before_train, before_epoch, trigger_step. In every process of a distributed training.

    Example:
        >>> ema = EMAWeights(0.999)
        >>> callbacks = [ema, ModelSaver(), SwapEMAWeights(InferenceRunner(data, ScalarStats("cost")), ema)]
    """

    _chief_only = False

    def __init__(self, decay: float = 0.999) -> None:
        self.decay = check_fraction("EMAWeights: decay", decay)
        self.is_swapped = False
        self._has_begun = self._has_updated = False
        self._pairs: list[tuple[tf.Variable, tf.Variable]] = []

    def _setup_graph(self) -> None:
        variables = _averaged_variables()
        if not variables:
            raise ValueError("EMAWeights: the model has no trainable floating-point variables to average.")
        self._num_updates = tf.get_variable(
            f"{_NAME}/num_updates", initializer=np.int64(0), trainable=False, use_resource=True
        )
        self._pairs = [(variable, _make_average(variable)) for variable in variables]
        self._update = self._build_update()
        # assign_add, not assign: the average must not share a buffer with a variable that is updated in place
        self._begin = tf.group(*[average.assign_add(variable - average) for variable, average in self._pairs])
        self._put_averages = tf.group(*[variable.assign(average) for variable, average in self._pairs])
        logger.info("EMAWeights: averages %d variables with decay %g.", len(self._pairs), self.decay)

    @property
    def is_set_up(self) -> bool:
        """Whether `setup_graph` has been called."""
        return bool(self._pairs)

    def _build_update(self) -> tf.Operation:
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
        self._has_begun = self._has_updated = bool(session.run(self._num_updates) > 0)
        if not self.trainer.loop.is_resumed:
            self._begin_averages()
        self._run_update = session.make_callable(self._update)

    def _before_epoch(self) -> None:
        self._begin_averages()  # of a training that resumes from a checkpoint without averages

    def state_dict(self) -> dict[str, Any] | None:
        """Return whether the averages have their initial values, and no update yet."""
        return {"is_new": self._has_begun and not self._has_updated}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Keep the averages of the checkpoint, even if the first update is still to come."""
        self._has_begun |= state["is_new"]

    def _begin_averages(self) -> None:
        if not self._has_begun:
            self.trainer.sess.run(self._begin)
            self._has_begun = True

    def _trigger_step(self) -> None:
        # A separate run: within the step's run, the update would race with the optimizer.
        self._run_update()
        self._has_updated = True

    def put_averages(self) -> None:
        """Replace the weights by the averages. This cannot be undone; see `swapped`."""
        self.trainer.sess.run(self._put_averages)
        update_copies(self.trainer.sess, [variable.op.name for variable, _ in self._pairs])

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """
        Return a context in which the variables hold the averages; the weights are kept in host memory.

        Raises:
            RuntimeError: the averages are already in place.
        """
        if self.is_swapped:
            raise RuntimeError(
                "EMAWeights: the averages are already in place. Use only one SwapEMAWeights around a callback."
            )
        self._begin_averages()
        session, variables = self.trainer.sess, [variable for variable, _ in self._pairs]
        weights = {v.name: np.array(value) for v, value in zip(variables, session.run(variables))}
        self.put_averages()
        self.is_swapped = True
        try:
            yield
        finally:
            SessionUpdate(session, variables).update(weights)
            self.is_swapped = False


class SwapEMAWeights(ProxyCallback):
    """
    Wrapper that triggers a callback with the averaged weights in place, then restores the training weights.

    Around an `InferenceRunner`, it validates the averages. Around a `ModelSaver` with a separate directory, it saves
    checkpoints whose ordinary variables hold the averages, for prediction. To resume training, load the other
    checkpoints.

    Args:
        cb: the callback; its `trigger` and `trigger_epoch` see the averages. To trigger it periodically, put a
            `PeriodicTrigger` around the `SwapEMAWeights`.
        ema: the `EMAWeights`, which must come before this callback in the list.

    Raises:
        TypeError: an argument has another type, or `cb` is a `PeriodicTrigger`.
        RuntimeError: in `setup_graph`: `ema` does not come before this callback.

    Runs at: the same times as the inner callback.

    Example:
        >>> SwapEMAWeights(ModelSaver(checkpoint_dir="train_log/averaged"), ema)
    """

    def __init__(self, cb: Callback, ema: EMAWeights) -> None:
        super().__init__(cb)
        if isinstance(cb, PeriodicTrigger):
            raise TypeError(
                "SwapEMAWeights: the callback is a PeriodicTrigger, which triggers at other times. Write "
                "PeriodicTrigger(SwapEMAWeights(callback, ema), ...) instead."
            )
        self.ema = check_type("SwapEMAWeights: ema", ema, EMAWeights)

    def _setup_graph(self) -> None:
        if not self.ema.is_set_up:
            raise RuntimeError(
                "SwapEMAWeights: its EMAWeights has not been set up. Put the EMAWeights before this callback in the list."
            )
        super()._setup_graph()

    def _trigger_epoch(self) -> None:
        with self.ema.swapped():
            self.cb.trigger_epoch()

    def _trigger(self) -> None:
        with self.ema.swapped():
            self.cb.trigger()


def _averaged_variables() -> list[tf.Variable]:
    """Return the trainable floating-point variables; if each tower has its own, those of the first tower."""
    saved = {id(variable) for variable in tf.global_variables()}
    return [v for v in tf.trainable_variables() if id(v) in saved and v.dtype.base_dtype.is_floating]


def _make_average(variable: tf.Variable) -> tf.Variable:
    average = tf.get_variable(
        f"{variable.op.name}/{_NAME}",
        shape=variable.shape,
        dtype=variable.dtype.base_dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        use_resource=True,
        collections=[tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MOVING_AVERAGE_VARIABLES],
    )
    save_like(average, variable)
    return average
