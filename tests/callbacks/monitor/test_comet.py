"""CometMLMonitor, with a fake experiment."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.comet import CometMLMonitor
from tensorpack_lite.diagnostics.manifest.hyperparams import RecordHyperParams
from tensorpack_lite.loop.callback_factory import CallbackFactory


def test_what_it_sends(fresh_graph):
    """It sends hyper-parameters, the graph, scalars, images and texts with their steps, and the ends of epochs and of training."""

    def put(self) -> None:
        self.trainer.monitors.put_scalar("error", 0.5)
        self.trainer.monitors.put_image("one", np.zeros([2, 3]))
        self.trainer.monitors.put_image("many", np.zeros([2, 2, 3, 1]))
        self.trainer.monitors.put_text("said", ["a", "b"])

    experiment = mock.Mock()
    callbacks = [RecordHyperParams(lr=0.5), CallbackFactory(trigger=put)]
    run(CountingTrainer(), callbacks, [CometMLMonitor(experiment, ["mine"])], epochs=1)

    assert [
        "add_tags(['mine'])",
        "log_parameters({'lr': 0.5})",
        f"set_model_graph({fresh_graph!r})",
        "log_epoch_end(1, step=2)",
        "log_metric('error', 0.5, step=2)",
        "log_image(name='one', step=2)",
        "log_image(name='many_0', step=2)",
        "log_image(name='many_1', step=2)",
        "log_text('a', step=2, metadata={'name': 'said'})",
        "log_text('b', step=2, metadata={'name': 'said'})",
        "end()",
    ] == [_shown(call) for call in experiment.method_calls]


def _shown(call) -> str:
    name, args, kwargs = call
    told = [repr(arg) for arg in args if not isinstance(arg, np.ndarray)]
    return f"{name}({', '.join([*told, *[f'{key}={value!r}' for key, value in kwargs.items()]])})"


def test_it_makes_an_experiment(monkeypatch):
    """Without an experiment, one is created with the keyword arguments."""
    comet_ml = SimpleNamespace(Experiment=mock.Mock())
    monkeypatch.setitem(sys.modules, "comet_ml", comet_ml)
    monitor = CometMLMonitor(project_name="digits")

    comet_ml.Experiment.assert_called_once_with(project_name="digits")
    assert comet_ml.Experiment.return_value is monitor.experiment
