"""Tickets of the datapoints that the runs of the session have used, in local variables of the graph."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..compat import tfv1 as tf
from ..tfutils.common import get_global_step_var
from ..utils.naming import USED_TICKETS_KEY

__all__ = ["UsedTickets"]

_NUM_ROWS = 251, 257  # primes: the tickets of batches use all rows unless the size of a batch is a multiple


class UsedTickets:
    """The last tickets of each tower. A run that takes a datapoint stores its ticket, so other runs cost nothing."""

    def __init__(self) -> None:
        # of each tower: pairs (global_step, ticket), in the row of the ticket modulo the number of rows
        self._rows: list[tf.Variable] = []
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
        num_rows = next(num for num in _NUM_ROWS if not any(_is_multiple(tensor, num) for tensor in tensors))
        with tf.device("/cpu:0"):
            # The initial value is not a tensor, which would wait for the datapoint of an earlier tower.
            rows = tf.Variable(
                np.zeros([num_rows, 2], np.int64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES, USED_TICKETS_KEY],
                name="used",
                use_resource=True,
            )
            self._rows.append(rows)
            # few operations, because each of them costs a microsecond per step
            row, new = tf.floormod(ticket, num_rows), tf.stack([self._step, ticket])
            store = tf.raw_ops.ResourceScatterUpdate(resource=rows.handle, indices=row, updates=new)
            with tf.control_dependencies([store]):
                return [t if t.op.type == "Placeholder" else tf.identity(t) for t in tensors]

    def last(self, failed_step: int | None) -> int | None:
        """
        Return the last ticket that was used; 0 before the first, None if no tensors have tickets. Needs a
        default session.

        Args:
            failed_step: the `global_step` of a run that failed, and whose datapoints do not count.

        Raises:
            RuntimeError: there were more runs with `failed_step` than are remembered.
        """
        if not self._rows:
            return None
        return max(_last(rows, failed_step) for rows in tf.get_default_session().run(self._rows))

    def of_last_run(self) -> list[int]:
        """Return the newest ticket of each tower. Needs a default session."""
        return [_last(rows, None) for rows in tf.get_default_session().run(self._rows)]


def _last(rows: np.ndarray, failed_step: int | None) -> int:
    """Return the last ticket of a tower from its rows (global_step, ticket)."""
    steps, tickets = rows[rows[:, 1] > 0].T
    used = tickets if failed_step is None else tickets[steps != failed_step]
    if not used.size and len(tickets) == len(rows):
        raise RuntimeError(
            f"The last datapoint before global_step {failed_step} is unknown, because at least {len(rows)} runs had this "
            "step. Resume from an earlier checkpoint."
        )
    return int(used.max()) if used.size else 0


def _is_multiple(tensor: tf.Tensor, number: int) -> bool:
    """Return whether the first dimension of a tensor is known, and a multiple of a number."""
    shape = tensor.shape.as_list() if tensor.shape.ndims else []
    return bool(shape and shape[0]) and shape[0] % number == 0
