"""RecordHyperParams, and the hyper-parameters that each training passes to its monitors."""

from __future__ import annotations

import argparse
import json
import os

import numpy as np
import pytest
from fakes.trainers import CountingTrainer, launch, run

from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.diagnostics.manifest import writer as module
from tensorpack_lite.diagnostics.manifest.hyperparams import RecordHyperParams


class Listener(MonitorBase):
    """Keeps the hyper-parameters of each call, and whether training had begun."""

    def __init__(self):
        self.calls, self.had_begun = [], False

    def process_hyperparams(self, values):
        self.calls.append(values)
        assert not self.had_begun

    def _before_train(self):
        self.had_begun = True


def test_values():
    """Plain values, lists and dicts of them are recorded; other objects are skipped."""
    args = argparse.Namespace(width=64, shape=[2, 3], inner={"a": {"b": None, "c": "x"}}, weights=np.zeros(2))
    assert {"width": 3, "shape": "[2, 3]", "inner.a.c": "x", "rate": 0.5} == RecordHyperParams(
        args, rate=np.float32(0.5), width=3
    ).values


@pytest.mark.parametrize("wrong", ["lr=3", ["lr"], object(), {1: 2}])
def test_other_types(wrong):
    """Another type, or a key that is not a string, is a TypeError."""
    with pytest.raises(TypeError, match="RecordHyperParams: values"):
        RecordHyperParams(wrong)


def test_a_training(log_dir, monkeypatch):
    """Monitors get the values of the user, the model, the data and the optimizer before they begin, without secrets."""
    monkeypatch.setattr(module, "_MAX_SECONDS", 120)
    monkeypatch.setenv("MADE_UP_TOKEN", "do not tell it")
    listener = Listener()
    launch(callbacks=[RecordHyperParams(depth=3, said="do not tell it")], monitors=[listener], steps_per_epoch=3)
    told = listener.calls[-1]
    assert (3, "<$MADE_UP_TOKEN>", "GradientDescent", 0.25, 3) == tuple(
        told[name] for name in ("depth", "said", "optimizer", "GradientDescent.learning_rate", "config.steps_per_epoch")
    )
    with open(os.path.join(log_dir, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    assert {"depth": 3, "said": "<$MADE_UP_TOKEN>"} == manifest["hyperparameters"]
    assert "RecordHyperParams" not in [callback["type"] for callback in manifest["callbacks"]]


def test_without_a_directory():
    """Without a logger directory, monitors get the values of the user only."""
    listener = Listener()
    run(CountingTrainer(), [RecordHyperParams(depth=3)], [listener], epochs=1)
    assert [{"depth": 3}] == listener.calls
