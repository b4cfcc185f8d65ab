"""diagnostics/hangs/hang_report.py without a hang. Trainings that hang are in tests/integration/test_hangs.py."""

from __future__ import annotations

from types import SimpleNamespace

from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.diagnostics.hangs.hang_report import _describe_main
from tensorpack_lite.input_source import QueueInput, StagingInput
from tensorpack_lite.loop.callback import Call, Callback


def test_a_raw_run_before_the_first_step():
    """If a callback evaluates a tensor of the model before StagingInput has staged anything, the report says so."""
    source = StagingInput(QueueInput(DataFromList([[1.0]])))
    trainer = SimpleNamespace(current_call=Call(Callback(), "_before_train"), global_step=0, is_in_run=False)
    text = _describe_main(trainer, [], source)
    assert text.startswith(
        "Callback (before_train, after step 0) is inside session.run, which waits for a datapoint"
    )
    assert text.endswith(
        "StagingInput puts it there in the first step; evaluate tensors of the model only after that."
    )
