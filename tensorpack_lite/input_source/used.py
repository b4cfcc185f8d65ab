"""Tickets of the datapoints that the runs of the session have used, in local variables of the graph."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..tfutils.common import get_global_step_var

__all__ = ["UsedTickets"]


class UsedTickets:
    """The last ticket of each tower. A run that takes a datapoint assigns its ticket, so other runs cost nothing."""

    def __init__(self) -> None:
        self._rows: list[tf.Variable] = []  # of each tower: (global_step, ticket) of the runs before and now
        self._step: Any = None

    def count(self, tensors: Sequence[tf.Tensor], ticket: tf.Tensor) -> list[tf.Tensor]:
        """
        Let each run that takes the tensors of a tower remember the ticket of their datapoint.

        Args:
            tensors: the input tensors of one tower.
            ticket: the ticket of their datapoint, int64, scalar.

        Returns:
            The tensors to use instead. Placeholders stay.
        """
        if self._step is None:
            # One read for all towers. A read in the control dependencies of a later tower may come after the
            # increment.
            self._step = tf.cast(get_global_step_var().value(), tf.int64)
        step = self._step
        with tf.device("/cpu:0"):
            # The initial value is not a tensor, which would wait for the datapoint of an earlier tower.
            rows = tf.Variable(
                np.zeros([2, 2], np.int64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                name="used",
                use_resource=True,
            )
            self._rows.append(rows)
            old = rows.read_value()
            before = tf.where(tf.equal(old[1, 0], step), old[0], old[1])
            with tf.control_dependencies([rows.assign(tf.stack([before, tf.stack([step, ticket])])).op]):
                return [t if t.op.type == "Placeholder" else tf.identity(t) for t in tensors]

    def last(self, failed_step: int | None) -> int | None:
        """
        Return the last ticket that was used; 0 before the first, None if no tensors have tickets. Needs a
        default session.

        Args:
            failed_step: the `global_step` of a run that failed, and whose datapoints do not count.
        """
        if not self._rows:
            return None
        values = tf.get_default_session().run(self._rows)
        return max(int(before[1] if step == failed_step else ticket) for before, (step, ticket) in values)
