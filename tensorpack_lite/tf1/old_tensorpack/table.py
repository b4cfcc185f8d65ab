"""Tables of what modules of tensorpack_lite get for old scripts, besides the names of `utils/old_names_table.py`."""

from __future__ import annotations

# Names of today that star imports bind only in old scripts
STAR_NAMES = {
    "tfutils.symbolic_functions": [
        "accuracy",
        "batch_flatten",
        "get_scalar_var",
        "huber_loss",
        "prediction_incorrect",
        "shapeless_placeholder",
    ],
}
