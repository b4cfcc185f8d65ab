"""Names of operations and collections that several packages use, and names in sentences."""

from __future__ import annotations

import re
from typing import Sequence

TOWER_PREFIX = re.compile("(?<![^/])tower[0-9]+/")
"""The part of a name that says in which tower an operation is."""

GLOBAL_STEP_INCR_OP_NAME = "global_step_incr"
"""The operation that adds one to `global_step`."""

MOVING_AVERAGES_KEY = "MOVING_AVERAGES"
"""The collection of the local variables of moving averages of summaries, which a training with `exact` saves."""

MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""The collection of the operations that update moving averages of summaries."""

READ_BEFORE_UPDATE_KEY = "READ_BEFORE_UPDATE"
"""The collection of reads of variables that return the value from before the step's update."""

TOWER_COPIES_KEY = "TOWER_COPIES"
"""The collection of the operations that set a tower's copy of a variable to the value of the first tower."""

CONSUMED_KEY = "CONSUMED_DATAPOINTS"
"""The collection of the variables that count used datapoints. They are neither global nor local variables, so nothing resets them."""

CONSUMED_OP_NAME = "count_used"
"""The operations that count used datapoints. Those that take the datapoints wait for them."""


def list_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first names as text for a message, each once, and how many others there are."""
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
