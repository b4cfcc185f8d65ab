"""Plain mistakes in arguments raise an error of the library at construction, not one of Python from deep inside."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.trainer_rows import ROWS as TRAINERS
from fakes.models import Mean
from fakes.quadratic import QuadraticTrainer
from fakes.trainers import CountingTrainer, run

from tensorpack_lite import callbacks, dataflow, input_source, predict, train
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.tfutils import optimizer
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.train import launch_train_with_config as launch

pytestmark = pytest.mark.law

SOURCE = dataflow.DataFromList([[np.zeros(2)]])


def config(**arguments):
    return train.TrainConfig(steps_per_epoch=1, **arguments)


def periodic(**period):
    return callbacks.PeriodicTrigger(callbacks.Callback(), **{"every_k_epochs": 1, **period})


def quadratic(**arguments):
    QuadraticTrainer().train_with_defaults(callbacks=[], **{"steps_per_epoch": 1, **arguments})


# type of the error -> calls, each with a part of its message
MISTAKES = {
    TypeError: [
        (lambda: dataflow.FakeData(3), "expected a list of shapes, got int"),
        (lambda: dataflow.FakeData([3]), "expected a list of integers, got int"),
        (lambda: dataflow.ConcatData(3), "expected a list of DataFlows, got int"),
        (lambda: dataflow.RandomChooseData(3), "expected a list of DataFlows, got int"),
        (lambda: dataflow.RepeatedData(SOURCE, "x"), "expected a number, got str"),
        (lambda: dataflow.SelectComponent(SOURCE, 3), "positions or keys, got int"),
        (lambda: callbacks.ScheduledHyperParamSetter("lr", 3), r"expected pairs \(point, value\) of numbers, got int"),
        (lambda: callbacks.ScheduledHyperParamSetter("lr", [(1,)]), r"expected pairs \(point, value\) of numbers, got \[\(1,\)\]"),
        (lambda: callbacks.HyperParamSetterWithFunc("lr", 3), "func has the wrong type .expected a function, got int"),
        (lambda: callbacks.MinSaver(3), "MinSaver: the name of the statistic .*expected str, got int"),
        (lambda: callbacks.TopKSaver(3), "TopKSaver: the name of the statistic .*expected str, got int"),
        (lambda: callbacks.EarlyStopping(3), "EarlyStopping: the name of the statistic .*expected str, got int"),
        (lambda: callbacks.ModelSaver("x"), "max_to_keep .*expected a number, got str"),
        (lambda: predict.OfflinePredictor(3), "config has the wrong type .expected PredictConfig, got int"),
        (lambda: train.TrainConfig(steps_per_epoch="a"), "steps_per_epoch: expected an integer, got 'a'"),
        (lambda: train.TrainConfig(steps_per_epoch=1, max_epoch="a"), "max_epoch: expected an integer, got 'a'"),
        (lambda: train.TrainConfig(steps_per_epoch=float("inf")), "steps_per_epoch: expected an integer, got inf"),
        (lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[3]), "an element of callbacks .*expected a Callback of tensorpack_lite, got int"),
        (lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[None]), "an element of callbacks .*expected a Callback of tensorpack_lite, got NoneType"),
        (lambda: train.TrainConfig(steps_per_epoch=1, callbacks=[callbacks.ModelSaver]), r"got the class ModelSaver; write ModelSaver\(\)"),
        (lambda: train.TrainConfig(steps_per_epoch=1, callbacks=callbacks.ModelSaver()), r"expected list, got ModelSaver\)\. Write callbacks=\[\.\.\.\]\."),
        (lambda: train.TrainConfig(steps_per_epoch=1, model=train.ModelDesc), r"expected ModelDescBase, got the class ModelDesc; write ModelDesc\(\)"),
        (lambda: train.TrainConfig(steps_per_epoch=1, dataflow=(np.zeros([3, 2]), np.zeros(3))), r"These are arrays, not datapoints: BatchData\(DataFromList\(list\(zip\(X, Y\)\)\), 32\)\."),
        (lambda: train.TrainConfig(steps_per_epoch=1, dataflow=input_source.FeedInput(SOURCE)), r"got FeedInput\)\. Use data= for an InputSource\."),
        (lambda: train.TrainConfig(steps_per_epoch=1, data=SOURCE), "data has the wrong type .expected InputSource, got DataFromList"),
        (lambda: optimizer.AccumGradOptimizer(3, 2), r"^AccumGradOptimizer: expected a tf\.train\.Optimizer, got int"),
        (lambda: callbacks.SendMonitorData("echo {a}", "a"), r"SendMonitorData: names has the wrong type .expected list or tuple, got str"),
        (lambda: callbacks.Monitors([callbacks.Callback()]), "Monitors: monitors has the wrong type .expected a list of MonitorBase, got Callback"),
        (lambda: callbacks.LearningRateFinder(3), "LearningRateFinder: param has the wrong type"),
        (lambda: callbacks.HyperParamSetterWithFunc(0.1, max), "param has the wrong type .expected a HyperParam .*got float"),
        (lambda: callbacks.StartProcOrThread([3]), "startable has the wrong type .expected a Process or a Thread, got int"),
        (lambda: callbacks.SwapEMAWeights(callbacks.Callback(), 0.9), "ema has the wrong type .expected EMAWeights, got float"),
        (lambda: callbacks.SwapEMAWeights(periodic(), callbacks.EMAWeights()), "Write PeriodicTrigger.SwapEMAWeights.callback, ema., ...."),
        (lambda: callbacks.ProcessTensors("cost", print), "ProcessTensors: names has the wrong type .*got str.*into a list"),
        (lambda: callbacks.TensorPrinter("cost"), "TensorPrinter: names has the wrong type .*got str"),
        (lambda: callbacks.MovingAverageSummary(train_op=3), "MovingAverageSummary: train_op is of the wrong type .*got int"),
        (lambda: callbacks.PeriodicTrigger(3, every_k_epochs=1), "PeriodicTrigger: expected a Callback, got int"),
        (lambda: callbacks.PeriodicRunHooks(3, 2), "PeriodicRunHooks: expected a Callback, got int"),
        (lambda: callbacks.EnableCallbackIf(callbacks.Callback(), True), "pred has the wrong type .expected a function, got bool"),
        (lambda: callbacks.ProxyCallback(3), "ProxyCallback: .* a Callback, got int"),
        (lambda: callbacks.HookToCallback(callbacks.Callback()), "a tf.train.SessionRunHook, got Callback"),
        (lambda: callbacks.Callbacks([callbacks.Callback(), 3]), "expected a list of Callback, got int in it"),
        (lambda: callbacks.Callbacks([callbacks.Callback]), r"got the class Callback; write Callback\(\) in it"),
        (lambda: train.TrainConfig(steps_per_epoch=1, dataflow=3), "TrainConfig: dataflow has the wrong type .expected DataFlow, got int"),
        (lambda: train.TrainConfig(steps_per_epoch=1, data=3), "TrainConfig: data has the wrong type .expected InputSource, got int"),
        (lambda: train.TrainConfig(steps_per_epoch=1, model=3), "TrainConfig: model has the wrong type .expected ModelDescBase, got int"),
        (lambda: train.TrainConfig(steps_per_epoch=1, callbacks=3), "TrainConfig: callbacks has the wrong type .expected list, got int"),
        (lambda: train.TrainConfig(steps_per_epoch=1, extra_callbacks=3), "TrainConfig: extra_callbacks has .* .expected list, got int"),
        (lambda: train.TrainConfig(steps_per_epoch=1, monitors=3), "TrainConfig: monitors has the wrong type .expected list, got int"),
        (lambda: launch(config(), train.Trainer()), "expected a SingleCostTrainer, got Trainer"),
        (lambda: launch(train.SimpleTrainer(), config()), r"arguments are swapped: write launch_train_with_config\(config, trainer\)"),
        (lambda: launch({}, train.SimpleTrainer()), "expected a TrainConfig, got dict"),
        (lambda: launch(config(model=Mean(), data=input_source.FeedInput(SOURCE)), train.QueueInputTrainer()), "QueueInputTrainer: expected a QueueInput, got FeedInput"),
        (lambda: train.Trainer(config()), r"launch_train_with_config.*trainv1"),
        (lambda: train.TowerTrainer(config=config()), "expected no arguments"),
        (lambda: train.SimpleTrainer().train(config()), r"SimpleTrainer.*train.*launch_train_with_config\(config, trainer\)"),
        (lambda: train.SimpleTrainer().fit(config()), r"SimpleTrainer.*fit.*launch_train_with_config\(config, trainer\)"),
        (lambda: train.Trainer().register_callback(3), "expected a Callback or a list of them, got int"),
        (lambda: train.Trainer().setup_callbacks((), []), r"Trainer: callbacks has the wrong type \(expected a list, got tuple\)"),
        (lambda: train.Trainer().setup_callbacks([], ()), r"Trainer: monitors has the wrong type \(expected a list, got tuple\)"),
        (lambda: train.Trainer().setup_callbacks([callbacks.MonitorBase()], []), r"is among the callbacks. Pass it in monitors=\[...\]"),
        (lambda: quadratic(session_creator=3), "session_creator has the wrong type .expected SessionCreator, got int"),
        (lambda: quadratic(session_init="model"), "session_init has the wrong type .expected SessionInit, got str.. See SmartInit"),
        (lambda: setattr(train.TowerTrainer(), "tower_func", max), "expected a TowerFunc, got builtin_function_or_method. Wrap it: TowerFunc"),
    ],
    ValueError: [
        (lambda: train.TrainConfig(steps_per_epoch=-1), "expected at least 0, got -1"),
        (lambda: train.TrainConfig(steps_per_epoch=1, starting_epoch=-1), "starting_epoch .*expected at least 0, got -1"),
        (lambda: callbacks.CometMLMonitor(object(), project_name="x"), r"both an experiment and arguments for a new one, \['project_name'\]"),
        (lambda: callbacks.TFEventWriter("/nowhere"), "TFEventWriter: logdir '/nowhere' is not a directory"),
        (lambda: callbacks.LearningRateFinder(lowest=0), "LearningRateFinder: lowest"),
        (lambda: callbacks.LearningRateFinder(highest=1e-7), "LearningRateFinder: highest is too small"),
        (lambda: callbacks.LearningRateFinder(num_steps=3), "LearningRateFinder: num_steps"),
        (lambda: callbacks.ScheduledHyperParamSetter("lr", [(1, 0.5)], interp="cubic"), "interp is unknown .expected None or 'linear', got 'cubic'"),
        (lambda: callbacks.ScheduledHyperParamSetter("lr", []), "schedule is empty"),
        (lambda: callbacks.StatMonitorParamSetter("lr", "error", abs, 0, 0), "last_k is too small .expected at least 1, got 0"),
        (lambda: callbacks.EMAWeights(1), r"decay is out of range .*got 1\)"),
        (lambda: callbacks.EstimatedTimeLeft(0), "EstimatedTimeLeft: last_k_epochs is too small .*got 0"),
        (lambda: callbacks.InjectShell(shell="bash"), r"shell is unknown \(expected 'ipython' or 'pdb', got 'bash'\)"),
        (lambda: callbacks.ThroughputTracker(0), r"samples_per_step is too small \(expected at least 1, got 0\)"),
        (lambda: callbacks.CheckReplicas(0), "every_k_steps is too small .expected at least 1, got 0"),
        (lambda: callbacks.WorstSamples("loss", [], num_samples=0), "num_samples"),
        (lambda: callbacks.SessionRunTimeout(0), r"timeout_in_ms is not positive \(expected more than 0, got 0\)"),
        (lambda: callbacks.MergeAllSummaries(-1), r"MergeAllSummaries: period is too small \(expected at least 0, got -1"),
        (lambda: callbacks.SimpleMovingAverage(["cost"], 0), "SimpleMovingAverage: window_size is too small .*got 0"),
        (lambda: callbacks.PeriodicTrigger(callbacks.Callback()), "PeriodicTrigger: would never run"),
        (lambda: callbacks.PeriodicCallback(callbacks.Callback()), "PeriodicCallback: would never run"),
        (lambda: periodic(every_k_steps=0), "PeriodicTrigger: every_k_steps is too small .expected at least 1, got 0"),
        (lambda: periodic(every_k_epochs=0), "PeriodicTrigger: every_k_epochs is too small .expected at least 1, got 0"),
        (lambda: callbacks.PeriodicRunHooks(callbacks.Callback(), 0), "PeriodicRunHooks: every_k_steps is too small"),
        (lambda: periodic(every_k_steps=2.5), "every_k_steps is not whole .expected an integer, got 2.5"),
        (lambda: callbacks.PeriodicCallback(callbacks.Callback(), every_k_steps=2.5), "every_k_steps is not whole"),
        (lambda: callbacks.PeriodicRunHooks(callbacks.Callback(), every_k_steps=2.5), "every_k_steps is not whole"),
        (lambda: train.TrainConfig(dataflow=SOURCE, steps_per_epoch=0), r"^TrainConfig: steps_per_epoch is 0, so nothing .* main_loop\(0"),
        (lambda: train.TrainConfig(dataflow=dataflow.DataFromGenerator(list)), r"DataFromGenerator has no length. Pass TrainConfig\(steps_per_epoch=...\)"),
        (lambda: train.TrainConfig(), "there is no data to count"),
        (lambda: train.TrainConfig(dataflow=dataflow.DataFromList([])), "DataFromList has the length 0. Check the paths of the data"),
        (lambda: train.TrainConfig(dataflow=SOURCE, data=input_source.FeedInput(SOURCE)), "expected either dataflow or data, got both"),
        (lambda: config(session_creator=NewSessionCreator(), session_config=tf.ConfigProto()), "expected either session_creator or session_config, got both"),
        (lambda: train.TrainConfig(steps_per_epoch=22.45), "steps_per_epoch is not whole .expected an integer, got 22.45.. Divide with //"),
        (lambda: train.TrainConfig(steps_per_epoch=1, starting_epoch=22.45), "TrainConfig: starting_epoch is not whole"),
        (lambda: train.TrainConfig(steps_per_epoch=1, max_epoch=22.45), "TrainConfig: max_epoch is not whole"),
        (lambda: launch(config(dataflow=SOURCE), train.SimpleTrainer()), "the config has no model"),
        (lambda: launch(config(model=Mean()), train.SimpleTrainer()), "the config has no data"),
        (lambda: quadratic(steps_per_epoch=None), "steps_per_epoch is missing"),
        *((make, text) for row in TRAINERS for text, make in row.refused),
    ],
    RuntimeError: [
        (lambda: run(CountingTrainer(), [callbacks.DumpTensors(["cost"])]), "DumpTensors: no directory to write to.*set_logger_dir"),
        (lambda: run(CountingTrainer(), [callbacks.DumpTensorAsImage("x")]), "DumpTensorAsImage: no directory to write to"),
        (lambda: run(CountingTrainer(), [callbacks.GraphProfiler()]), "GraphProfiler: no directory to write to"),
        (lambda: run(CountingTrainer(), [callbacks.HumanHyperParamSetter("x")]), "HumanHyperParamSetter: no logger directory to read.*set_logger_dir"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "call", "text"),
    [(kind, *mistake) for kind in MISTAKES for mistake in MISTAKES[kind]],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake(kind, call, text):
    """The error explains what was expected and what was given."""
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


def test_generous_arguments():
    """Numbers in strings, NumPy's numbers, generators and views of dicts are accepted, as int() and list() accept them."""
    config = train.TrainConfig(steps_per_epoch="100", max_epoch=np.float32(5), starting_epoch=np.int64(0))
    assert (100, 5, 0) == (config.steps_per_epoch, config.max_epoch, config.starting_epoch)
    fake = dataflow.FakeData((shape for shape in [[3], [2]]), dtype=["float32", "int32"])
    assert [(3,), (2,)] == fake.shapes
    sources = {"a": SOURCE, "b": dataflow.DataFromList([[1]])}
    assert 2 == len(dataflow.RandomChooseData(sources.values()).df_lists)
    assert 2 == len(dataflow.ConcatData(source for source in sources.values()))
    setter = callbacks.ScheduledHyperParamSetter("lr", ((k, 0.5**k) for k in (2, 1)))
    assert [(1, 0.5), (2, 0.25)] == setter.schedule
