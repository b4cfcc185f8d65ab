"""The number of datapoints that an input's runs have used, counted in the graph."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ...compat import tfv1 as tf
from ...compat.private import at_top_level
from ...loop.step import Step
from ...utils.naming import CONSUMED_KEY, CONSUMED_OP_NAME


class ConsumedCounter:
    """
    Number of the last datapoint that was used. Every run that takes a datapoint also counts it, whoever runs it.

    Args:
        number: the number at the begin of the training.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._variable: Any = None
        self._counts: list[tuple[tf.Operation, int]] = []  # of each tower, and what it adds

    def count(self, num: int) -> tf.Operation:
        """
        Return an operation that must run before datapoints are taken, and counts them. Call it once for each tower.

        Args:
            num: how many datapoints the tower takes.
        """
        # Without inputs, it also runs if another tower waits for data; see `num_in`. A branch or loop must run it itself.
        is_free = at_top_level(tf.get_default_graph())
        with tf.device("/cpu:0"), tf.control_dependencies(None) if is_free else nullcontext():
            if self._variable is None:
                self._variable = tf.Variable(
                    np.int64(self._number),
                    trainable=False,
                    collections=[CONSUMED_KEY],
                    name="used",
                    use_resource=True,
                )
                # Initialized once, with the tables: whoever resets or puts back variables must not change it.
                tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, self._variable.initializer)
            added = tf.raw_ops.AssignAddVariableOp(
                resource=self._variable.handle, value=np.int64(num), name=CONSUMED_OP_NAME
            )
        self._counts.append((added, num))
        return added

    def number(self) -> int:
        """Return the number of the last datapoint that was used. Needs a default session if anything is counted."""
        if self._variable is not None:
            self._number = int(tf.get_default_session().run(self._variable))
        return self._number

    def assign(self, number: int) -> None:
        """Set the number. Needs a default session if anything is counted."""
        self._number = number
        if self._variable is not None:
            # the graph is finalized, so there is no other assignment
            initializer = self._variable.initializer
            tf.get_default_session().run(initializer, {initializer.inputs[1]: number})

    def num_in(self, step: Step) -> int:
        """Return how many datapoints a run has counted, even if it failed because another tower's data was missing."""
        return sum(num * step.count([added]) for added, num in self._counts)

    def of_towers(self) -> list[int]:
        """Return, for each tower, the number of the last datapoint that it used."""
        last, numbers = self.number(), []
        for _, num in reversed(self._counts):
            numbers.append(last)
            last -= num
        return numbers[::-1]
