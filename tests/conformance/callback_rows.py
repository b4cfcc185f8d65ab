"""One row for each public callback: the smallest one, and a training for it."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from unittest import mock

import numpy as np
from fakes.trainers import CountingTrainer, ScalingTrainer

from tensorpack_lite import callbacks as cb
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.raw import DataFromList


class Row:
    """
    One way to make a callback.

    Args:
        name: the public name it stands for.
        make: from a directory to the callback.
        chief_only: what its flag is.
        trainer: the kind of trainer it needs.
        before: a function from the directory to another callback that it needs before it, or None.
    """

    def __init__(self, name, make, chief_only, trainer=CountingTrainer, before=None) -> None:
        self.name, self.make, self.chief_only = name, make, chief_only
        self.trainer, self.before = trainer, before

    @property
    def is_monitor(self) -> bool:
        """Whether it goes into `monitors` instead of `callbacks`."""
        return isinstance(getattr(cb, self.name), type) and issubclass(getattr(cb, self.name), cb.MonitorBase)

    def __repr__(self) -> str:
        return self.name


class _WithCost(ScalingTrainer):
    """A ScalingTrainer that shows its cost."""

    def __init__(self) -> None:
        super().__init__()
        self.cost = tf.get_default_graph().get_tensor_by_name("cost:0")


class _WithClass(ScalingTrainer):
    """A ScalingTrainer with a predicted class for each sample."""

    def __init__(self) -> None:
        super().__init__(build=lambda: tf.constant([0, 1], name="class"))


def _rate():
    return cb.ObjAttrParam(SimpleNamespace(rate=1.0), "rate")


def _report(directory):
    """A callback that reports `stat` each time it can be copied, and saves the model to go with it."""

    def report(self) -> None:
        self.trainer.monitors.put_scalar("stat", self.global_step)

    both = _Both(cb.CallbackFactory(trigger=report), cb.ModelSaver(checkpoint_dir=directory))
    return cb.PeriodicTrigger(both, every_k_steps=1)


class _Both(cb.Callback):
    """Two callbacks as one."""

    def __init__(self, first, second) -> None:
        self._both = (first, second)

    def _setup_graph(self) -> None:
        for one in self._both:
            one.setup_graph(self.trainer)

    def _before_train(self) -> None:
        for one in self._both:
            one.before_train()

    def _trigger(self) -> None:
        for one in self._both:
            one.trigger()


class _Averaging(cb.SwapEMAWeights):
    """A SwapEMAWeights that brings the EMAWeights it needs."""

    def _setup_graph(self) -> None:
        self.ema.setup_graph(self.trainer)
        super()._setup_graph()

    def _before_train(self) -> None:
        self.ema.before_train()
        super()._before_train()


def _averaging(callback):
    return _Averaging(callback, cb.EMAWeights())


def _inference(inferencer):
    source = DataFromList([[np.float32([0, 1])]], shuffle=False)
    return cb.InferenceRunner(source, inferencer)


def _parallel_inference():
    """A DataParallelInferenceRunner on three datapoints and two towers."""
    source = DataFromList([[np.ones([2], "float32")]] * 3, shuffle=False)
    return cb.DataParallelInferenceRunner(source, cb.ScalarStats("cost"), 2)


def _sharded_inference():
    source = DataFromList([[np.float32([0, 1])]], shuffle=False)
    return cb.ShardedInferenceRunner(source, cb.ScalarStats("cost"))


ROWS = [
    Row("AUC", lambda d: _inference(cb.AUC("x", "x")), True, ScalingTrainer),
    Row("Accuracy", lambda d: _inference(cb.Accuracy("class", "x")), True, _WithClass),
    Row(
        "BinaryClassificationStats",
        lambda d: _inference(cb.BinaryClassificationStats("x", "x")),
        True,
        ScalingTrainer,
    ),
    Row("CSVWriter", lambda d: cb.CSVWriter(), False),
    Row("Callback", lambda d: cb.Callback(), True),
    Row("CallbackFactory", lambda d: cb.CallbackFactory(trigger=lambda self: None), True),
    Row("Callbacks", lambda d: cb.Callbacks([cb.Callback()]), True),
    Row("CheckReplicas", lambda d: cb.CheckReplicas(1), False),
    Row("CheckNumerics", lambda d: cb.CheckNumerics(run_step=True), True),
    Row("ClassificationError", lambda d: _inference(cb.ClassificationError("x")), True, ScalingTrainer),
    Row("CometMLMonitor", lambda d: cb.CometMLMonitor(mock.Mock()), False),
    Row("ConfusionMatrix", lambda d: _inference(cb.ConfusionMatrix("class", "x")), True, _WithClass),
    Row("DataParallelInferenceRunner", lambda d: _parallel_inference(), True, ScalingTrainer),
    Row("DumpParamAsImage", lambda d: cb.DumpParamAsImage("x", map_func=lambda v: np.ones([2, 2])), True),
    Row("DumpTensor", lambda d: cb.DumpTensor(["cost"]), True),
    Row("DumpTensorAsImage", lambda d: cb.DumpTensorAsImage("x", map_func=lambda v: np.ones([2, 2])), True),
    Row("DumpTensors", lambda d: cb.DumpTensors(["cost"]), True),
    Row("EMAWeights", lambda d: cb.EMAWeights(0.9), False),
    Row("EarlyStopping", lambda d: cb.EarlyStopping("stat", "min", patience=99), False, before=_report),
    Row("EnableCallbackIf", lambda d: cb.EnableCallbackIf(cb.Callback(), lambda self: True), True),
    Row("EstimatedTimeLeft", lambda d: cb.EstimatedTimeLeft(), True),
    Row("GPUMemoryTracker", lambda d: cb.GPUMemoryTracker(), False),
    Row("GraphProfiler", lambda d: cb.GraphProfiler(dump_event=True), True),
    Row("HookToCallback", lambda d: cb.HookToCallback(tf.train.SessionRunHook()), False),
    Row("HostMemoryTracker", lambda d: cb.HostMemoryTracker(), False),
    Row("HumanHyperParamSetter", lambda d: cb.HumanHyperParamSetter("x"), False),
    Row("HyperParamSetterWithFunc", lambda d: cb.HyperParamSetterWithFunc("x", lambda e, v: v), False),
    Row("InferenceRunner", lambda d: _inference(cb.ScalarStats("cost")), True, ScalingTrainer),
    Row("InjectShell", lambda d: cb.InjectShell(os.path.join(d, "shell")), True),
    Row("JSONWriter", lambda d: cb.JSONWriter(), False),
    Row("LearningRateFinder", lambda d: cb.LearningRateFinder(_rate(), cost="cost"), False),
    Row("LossSpike", lambda d: cb.LossSpike(), True),
    Row("ManifestWriter", lambda d: cb.ManifestWriter(), True),
    Row("MaxSaver", lambda d: cb.MaxSaver("stat", checkpoint_dir=d), True, before=_report),
    Row("MergeAllSummaries", lambda d: cb.MergeAllSummaries(1), True),
    Row("MinSaver", lambda d: cb.MinSaver("stat", checkpoint_dir=d), True, before=_report),
    Row("ModelSaver", lambda d: cb.ModelSaver(checkpoint_dir=d), True),
    Row("ModelSummary", lambda d: cb.ModelSummary(), True, _WithCost),
    Row("MonitorBase", lambda d: cb.MonitorBase(), False),
    Row("Monitors", lambda d: cb.Monitors([]), False),
    Row("MovingAverageSummary", lambda d: cb.MovingAverageSummary(), True),
    Row("PeakMemoryTracker", lambda d: cb.PeakMemoryTracker(), False),
    Row("PeriodicCallback", lambda d: cb.PeriodicCallback(cb.Callback(), every_k_steps=2), True),
    Row("PeriodicRunHooks", lambda d: cb.PeriodicRunHooks(cb.Callback(), every_k_steps=2), True),
    Row("PeriodicTrigger", lambda d: cb.PeriodicTrigger(cb.Callback(), every_k_steps=2), True),
    Row("ProcessTensors", lambda d: cb.ProcessTensors(["cost"], lambda cost: None), True),
    Row("ProgressBar", lambda d: cb.ProgressBar(["cost"]), False),
    Row("ProxyCallback", lambda d: cb.ProxyCallback(cb.Callback()), True),
    Row("RecordHyperParams", lambda d: cb.RecordHyperParams(lr=0.1), True),
    Row("RegressionErrors", lambda d: _inference(cb.RegressionErrors("y", "x")), True, ScalingTrainer),
    Row("ReportWriter", lambda d: cb.ReportWriter(), True),
    Row("RunOp", lambda d: cb.RunOp(lambda: tf.no_op(), run_step=True), False),
    Row("RunUpdateOps", lambda d: cb.RunUpdateOps(), False),
    Row("ScalarPrinter", lambda d: cb.ScalarPrinter(enable_step=True), False),
    Row("ScalarStats", lambda d: _inference(cb.ScalarStats(["cost"])), True, ScalingTrainer),
    Row("ScalarTable", lambda d: cb.ScalarTable(), False),
    Row("ScheduledHyperParamSetter", lambda d: cb.ScheduledHyperParamSetter(_rate(), [(0, 0.5)]), False),
    Row("SendMonitorData", lambda d: cb.SendMonitorData("true {stat}", ["stat"], strict=False), False),
    Row("SendStat", lambda d: cb.SendStat("true {stat}", ["stat"]), True, before=_report),
    Row("SessionRunTimeout", lambda d: cb.SessionRunTimeout(60000), True),
    Row("ShardedInferenceRunner", lambda d: _sharded_inference(), False, ScalingTrainer),
    Row("SimpleMovingAverage", lambda d: cb.SimpleMovingAverage(["cost"], 2), True),
    Row("Speed", lambda d: cb.Speed(after=0.001), False),
    Row("StartProcOrThread", lambda d: cb.StartProcOrThread(threading.Thread(target=int)), False),
    Row(
        "StatMonitorParamSetter",
        lambda d: cb.StatMonitorParamSetter(_rate(), "stat", lambda v: v, 0, 1),
        False,
        before=_report,
    ),
    Row("SwapEMAWeights", lambda d: _averaging(cb.ModelSaver(checkpoint_dir=d)), True),
    Row("TFEventWriter", lambda d: cb.TFEventWriter(d), False),
    Row("TensorPrinter", lambda d: cb.TensorPrinter(["cost"]), True),
    Row("TerminateOnNaN", lambda d: cb.TerminateOnNaN("cost"), False),
    Row("ThroughputTracker", lambda d: cb.ThroughputTracker(), False),
    Row("TopKSaver", lambda d: cb.TopKSaver("stat", mode="min", checkpoint_dir=d), True, before=_report),
    Row("WorstSamples", lambda d: _inference(cb.WorstSamples("y", ["x"])), True, ScalingTrainer),
]

NO_ROW = {
    "CallbackToHook": "a hook, not a callback; tests/loop",
    "GPUUtilizationTracker": "needs a GPU; tests/callbacks/test_prof.py trains with one that is made up",
    "GraphVarParam": "a parameter, not a callback",
    "HyperParam": "a parameter, not a callback",
    "HyperParamSetter": "has nothing to set; its subclasses have rows",
    "InferenceRunnerBase": "runs nothing; InferenceRunner has a row",
    "Inferencer": "computes nothing; its subclasses have rows, inside an InferenceRunner",
    "TFLocalCLIDebugHook": "waits for somebody at the terminal; tests/callbacks/test_debug_cli.py types for them",
    "MLflowMonitor": "needs MLflow; tests/callbacks/monitor/test_mlflow_run.py, run by `tox -e monitors`",
    "WandbMonitor": "needs wandb; tests/callbacks/monitor/test_wandb_run.py, run by `tox -e monitors`",
    "ObjAttrParam": "a parameter, not a callback",
}
"""Public names of `tensorpack_lite.callbacks` without a row, and why."""
