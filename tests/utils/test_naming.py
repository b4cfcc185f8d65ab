"""Names that checkpoints and scripts rely on."""

from __future__ import annotations

from tensorpack_lite.utils import naming


def test_names_are_upstreams():
    """The operation and the collection have tensorpack's names."""
    assert "global_step_incr" == naming.GLOBAL_STEP_INCR_OP_NAME
    assert "MOVING_SUMMARY_OPS" == naming.MOVING_SUMMARY_OPS_KEY
