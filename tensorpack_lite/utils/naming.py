"""Names of operations and collections that several packages must agree on."""

__all__ = [
    "GLOBAL_STEP_INCR_OP_NAME",
    "MOVING_SUMMARY_OPS_KEY",
    "READ_BEFORE_UPDATE_KEY",
    "STAGING_OPS_KEY",
]

GLOBAL_STEP_INCR_OP_NAME = "global_step_incr"
"""The operation that adds one to `global_step`."""

MOVING_SUMMARY_OPS_KEY = "MOVING_SUMMARY_OPS"
"""The collection of the operations that update moving averages of summaries."""

READ_BEFORE_UPDATE_KEY = "READ_BEFORE_UPDATE"
"""The collection of the reads of variables that see the value from before the step's update."""

STAGING_OPS_KEY = "STAGING_OPS"
"""The collection of the operations of staging areas: for each area, the one that takes and the one that brings."""
