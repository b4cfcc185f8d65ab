"""Tickets of the datapoints that the runs of the session have used, in local variables of the graph."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..tfutils.common import get_global_step_var
from ..utils.naming import USED_TICKETS_KEY

__all__ = ["UsedTickets"]

# A prime. The ticket of a run is lost only if the next run that takes a datapoint comes a multiple of so many steps later,
# and fails.
_NUM_ROWS = 1021


class UsedTickets:
    """The last tickets of each tower. A run that takes a datapoint stores its ticket, so other runs cost nothing."""

    def __init__(self) -> None:
        # of each tower: the last ticket of a step, in the row of its global_step modulo the number of rows
        self._rows: list[tf.Variable] = []
        self._row: Any = None

    def count(self, tensors: Sequence[tf.Tensor], ticket: tf.Tensor) -> list[tf.Tensor]:
        """
        Let each run that takes the tensors of a tower remember the ticket of their datapoint.

        Args:
            tensors: the input tensors of one tower.
            ticket: the ticket of their datapoint, int64, scalar.

        Returns:
            The tensors to use instead. Placeholders stay.
        """
        with tf.device("/cpu:0"), tf.control_dependencies([self.store(ticket)]):
            return [t if t.op.type == "Placeholder" else tf.identity(t) for t in tensors]

    def store(self, ticket: tf.Tensor) -> tf.Operation:
        """Return an operation that remembers the ticket of a tower's datapoint. Call it once for each tower."""
        with tf.device("/cpu:0"):
            if self._row is None:
                # One read for all towers. A read in the control dependencies of a later tower may come after the
                # increment. It does not wait for the datapoint, so only one operation does: each costs a microsecond.
                step = tf.cast(get_global_step_var().value(), tf.int64)
                self._row = tf.floormod(step, _NUM_ROWS)
            # The initial value is not a tensor, which would wait for the datapoint of an earlier tower.
            rows = tf.Variable(
                np.zeros([_NUM_ROWS], np.int64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES, USED_TICKETS_KEY],
                name="used",
                use_resource=True,
            )
            self._rows.append(rows)
            return tf.raw_ops.ResourceScatterUpdate(resource=rows.handle, indices=self._row, updates=ticket)

    def last(self, failed_step: int | None) -> int | None:
        """
        Return the last ticket that was used; 0 before the first, None if no tensors have tickets. Needs a
        default session.

        Args:
            failed_step: the `global_step` of a run that failed, and whose datapoints do not count.
        """
        towers = self._fetch()
        if failed_step is not None:
            for rows in towers:
                rows[failed_step % _NUM_ROWS] = 0
        return max((int(rows.max()) for rows in towers), default=None)

    def of_last_run(self) -> list[int]:
        """Return the newest ticket of each tower. Needs a default session."""
        return [int(rows.max()) for rows in self._fetch()]

    def _fetch(self) -> list[np.ndarray]:
        return tf.get_default_session().run(self._rows) if self._rows else []  # type: ignore[no-any-return]
