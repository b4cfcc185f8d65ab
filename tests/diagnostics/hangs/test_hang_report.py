"""diagnostics/hangs/hang_report.py without a hang. Training runs that hang are in tests/integration/test_hangs.py."""

from __future__ import annotations

from types import SimpleNamespace

from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow import DataFromList
from tensorpack_lite.diagnostics.hangs.hang_report import _describe_main
from tensorpack_lite.input_source import QueueInput, StagingInput
from tensorpack_lite.loop.callback import Call, Callback


def test_a_raw_run_before_the_first_step():
    """If a callback evaluates a tensor of the model before StagingInput has staged anything, the report mentions it."""
    source = StagingInput(QueueInput(DataFromList([[1.0]])))
    trainer = SimpleNamespace(current_call=Call(Callback(), "_before_train"), global_step=0, is_in_run=False)
    text = _describe_main(trainer, [], source)
    assert text.startswith("Callback (before_train, after step 0) is inside session.run, which waits for a datapoint")
    assert text.endswith("StagingInput puts it there in the first step; evaluate tensors of the model only after that.")


def test_a_thread_that_was_never_started():
    """If a proxy has left out the callbacks of its input, the report says that no thread supplies data."""
    source = StagingInput(QueueInput(DataFromList([[1.0]])))
    source.setup([tf.TensorSpec([], tf.float32, "x")])
    source.begin_filling()
    trainer = SimpleNamespace(current_call=None, global_step=0, epoch_num=1, is_in_run=True)
    assert (
        "Step 1 (epoch 1) waits for data, but the thread of QueueInput was never started: "
        == _describe_main(trainer, [], source).partition("the callbacks")[0]
    )
