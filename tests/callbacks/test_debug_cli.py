"""tfdbg in the hooked session, on every TensorFlow."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import debug_cli
from tensorpack_lite.callbacks.debug_cli import TFLocalCLIDebugHook
from tensorpack_lite.callbacks.graph import ProcessTensors


def test_a_session_on_the_terminal(monkeypatch, capsys):
    """tfdbg stops before the first run, runs it, prints a tensor, and continues."""
    stdin = io.StringIO("run\nprint_tensor cost:0\nrun -t 10\n")
    monkeypatch.setattr(sys, "stdin", stdin)
    callbacks = [TFLocalCLIDebugHook(ui_type="readline"), ProcessTensors(["cost"], lambda cost: None)]
    trainer = run(CountingTrainer(), callbacks, steps=3, epochs=1)

    assert (3, "") == (trainer.global_step, stdin.read())
    assert "cost:0:DebugIdentity" in capsys.readouterr().out


def test_a_filter_sees_the_tensors(monkeypatch):
    """A tensor filter is called with every computed tensor."""
    stdin = io.StringIO("run -f seen\n" + 10 * "run -t 10\n")
    monkeypatch.setattr(sys, "stdin", stdin)
    seen = {}

    def is_second_cost(datum, tensor):
        if datum.node_name == "cost":
            seen.setdefault("cost", []).append(float(np.asarray(tensor)))
        return len(seen.get("cost", ())) == 2

    hook = TFLocalCLIDebugHook(ui_type="readline")
    hook.add_tensor_filter("seen", is_second_cost)
    run(CountingTrainer(), [hook, ProcessTensors(["cost"], lambda cost: None)], steps=3, epochs=1)

    assert [0.0, 10.0] == seen["cost"][:2]


def test_a_tensorflow_without_it(monkeypatch):
    """Without tfdbg, the ImportError names the TensorFlow version and gives advice."""
    monkeypatch.setattr(debug_cli, "debug_hook_class", lambda: None)
    with pytest.raises(ImportError, match=r"TensorFlow \d+\.\d+ has no tfdbg. Use TensorPrinter or TerminateOnNaN"):
        TFLocalCLIDebugHook()
