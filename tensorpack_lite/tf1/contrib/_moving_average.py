"""`tf.contrib.opt.MovingAverageOptimizer`."""

from __future__ import annotations

from typing import Any

from ...compat import tfv1 as tf


class MovingAverageOptimizer(tf.train.Optimizer):
    """
    A wrapper of an optimizer that also maintains moving averages of the variables.

    Args:
        opt: the optimizer that computes and applies gradients.
        average_decay, num_updates: see `tf.train.ExponentialMovingAverage`.
        sequential_update: update the averages after the variables. False means at the same time.

    Variables: `<variable>/ExponentialMovingAverage`.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        super().__init__(use_locking=False, name="MovingAverage")
        self._optimizer = opt
        self._averages = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._sequential = sequential_update
        self._swapped: dict[str, str] = {}

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[tf.Tensor, tf.Variable]]:
        """Compute gradients with the wrapped optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> tf.Operation:
        """Apply gradients with the wrapped optimizer, and update the averages."""
        pairs = list(grads_and_vars)
        train_op = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([train_op] if self._sequential else []):
            average_op = self._averages.apply(variables)
        for variable in variables:
            average = self._averages.average(variable)
            self._swapped[variable.op.name] = average.op.name
            self._swapped[average.op.name] = variable.op.name
        return tf.group(train_op, average_op, name="train_with_avg")

    def swapping_saver(self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any) -> tf.train.Saver:
        """
        Return a saver that writes the averages under the names of the variables, and the other way round.

        Args:
            var_list: a list of variables or a dict from names to variables. None means all global variables.
            name, kwargs: see `tf.train.Saver`.

        Raises:
            RuntimeError: `apply_gradients` or `minimize` has not been called.
            ValueError: `var_list` has a variable without its average.
        """
        if not self._swapped:
            raise RuntimeError(
                "MovingAverageOptimizer.swapping_saver: there are no averages yet. "
                "Call minimize or apply_gradients first."
            )
        variables = var_list
        if not isinstance(var_list, dict):
            variables = {variable.op.name: variable for variable in var_list or tf.global_variables()}
        missing = [one for one in variables if self._swapped.get(one, one) not in variables]
        if missing:
            raise ValueError(
                f"MovingAverageOptimizer.swapping_saver: var_list has {missing[0]}, but not {self._swapped[missing[0]]}."
            )
        swapped = {one: variables[self._swapped.get(one, one)] for one in variables}
        return tf.train.Saver(swapped, name=name, **kwargs)
