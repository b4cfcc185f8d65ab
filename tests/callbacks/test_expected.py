"""Callbacks that read a statistic which nothing reports."""

from __future__ import annotations

import pytest
from fakes.models import Mean, threes
from fakes.old_scripts import complete_for_old_scripts
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, launch, run

from tensorpack_lite.callbacks import statistic_reader
from tensorpack_lite.callbacks.early_stopping import EarlyStopping
from tensorpack_lite.callbacks.expected import advice_on_order, find_late_reporter
from tensorpack_lite.callbacks.inference import BinaryClassificationStats, ClassificationError, ScalarStats
from tensorpack_lite.callbacks.inference_runner import InferenceRunner
from tensorpack_lite.callbacks.misc import EstimatedTimeLeft
from tensorpack_lite.callbacks.monitor.command import SendMonitorData
from tensorpack_lite.callbacks.param.hyperparam import ObjAttrParam
from tensorpack_lite.callbacks.param.statistic import StatMonitorParamSetter
from tensorpack_lite.callbacks.saver import MaxSaver, MinSaver, ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.callbacks.trigger import EnableCallbackIf, PeriodicCallback, PeriodicTrigger
from tensorpack_lite.compat import TensorSpec
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.input_source.queueing import BatchQueueInput, QueueInput
from tensorpack_lite.input_source.staging import StagingInput
from tensorpack_lite.input_source.tensor import TensorInput
from tensorpack_lite.input_source.tfdata import TFDatasetInput
from tensorpack_lite.input_source.zmq_input import ZMQInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.loop.group import Callbacks
from tensorpack_lite.train.config import TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer

MISSPELT = "validaton_error"
READERS = {
    "EarlyStopping": EarlyStopping,
    "MinSaver": MinSaver,
    "MaxSaver": MaxSaver,
    "TopKSaver": TopKSaver,
    "StatMonitorParamSetter": lambda name, **kwargs: StatMonitorParamSetter(
        ObjAttrParam(EarlyStopping("cost"), "patience"), name, lambda value: value, 0, 1, **kwargs
    ),
    "SendMonitorData": lambda name, **kwargs: SendMonitorData("true {" + name + "}", [name], **kwargs),
}


def train(reader, epochs=3):
    """Train with a callback that reports `validation_error`, and a callback or monitor that reads; return the epochs."""
    trainer, reported = CountingTrainer(), PutValues("validation_error", [1.0] * epochs)
    is_monitor = isinstance(reader, SendMonitorData)
    callbacks, monitors = ([reported], [reader]) if is_monitor else ([reported, reader], [])
    try:
        run(trainer, callbacks, monitors, epochs=epochs)
    finally:
        train.epochs = trainer.epoch_num
    return trainer.epoch_num


@pytest.mark.parametrize("name", READERS)
def test_a_misspelt_statistic(log_dir, name):
    """A misspelt statistic ends training after the first epoch, and the error names the nearest one."""
    match = f"{name}.*: statistic '{MISSPELT}' has not been reported. Did you mean 'validation_error'.*strict=False"
    with pytest.raises(KeyError, match=match):
        train(READERS[name](MISSPELT))
    assert 1 == train.epochs


@pytest.mark.parametrize("name", READERS)
def test_not_strict(log_dir, log_lines, name):
    """With strict=False, there is a warning in each epoch."""
    assert 3 == train(READERS[name](MISSPELT, strict=False))
    assert 3 == len([line for line in log_lines if f"'{MISSPELT}' has not been reported" in line])


INPUTS = {
    "FeedInput": lambda: FeedInput(threes()),
    "QueueInput": lambda: QueueInput(threes()),
    "BatchQueueInput": lambda: BatchQueueInput(threes(), 4),
    "StagingInput": lambda: StagingInput(QueueInput(threes())),
    "TensorInput": lambda: TensorInput(lambda: [tf.zeros([4])]),
    "TFDatasetInput": lambda: TFDatasetInput(tf.data.Dataset.from_tensors([3.0] * 4).repeat()),
    "ZMQInput": lambda: ZMQInput("ipc://not-opened", 5),
}


@pytest.mark.parametrize("name", INPUTS)
def test_callbacks_of_inputs_report_nothing(name):
    """The callbacks of an input are not taken for callbacks of the user, which may report a statistic later."""
    source = INPUTS[name]()
    callbacks = source.setup([TensorSpec([4], tf.float32, "x")])
    assert None is find_late_reporter(callbacks, MISSPELT, ["cost"])


@pytest.mark.parametrize("name", ["FeedInput", "QueueInput", "TFDatasetInput"])
def test_training_with_an_input(log_dir, name):
    """With an input of the library, a statistic that nothing reports ends training after the first epoch."""
    config = TrainConfig(
        model=Mean(), data=INPUTS[name](), callbacks=[EarlyStopping(MISSPELT)], steps_per_epoch=1, max_epoch=3
    )
    trainer = SimpleTrainer()
    with pytest.raises(KeyError, match=f"EarlyStopping: statistic '{MISSPELT}' has not been reported"):
        launch_train_with_config(config, trainer)
    assert 1 == trainer.epoch_num


def test_nothing_is_reported():
    """A training of library callbacks only, which reports nothing, ends after the first epoch, too."""
    with pytest.raises(KeyError, match="EarlyStopping: statistic 'error' has not been reported. Nothing has been"):
        run(CountingTrainer(), [EarlyStopping("error")])


def test_a_statistic_that_comes_later_in_the_epoch(log_lines):
    """A callback may read a statistic that is reported behind it, as the default callbacks do: it gets the previous value."""
    run(CountingTrainer(), [EarlyStopping("error"), PutValues("error", [2, 1])])
    assert [] == [line for line in log_lines if "has not been reported" in line]


def validate(every):
    """Train `Mean` for three epochs, and validate in some of them; return the callback that reads the result."""
    runner = InferenceRunner(threes(1), [ScalarStats("cost")])
    stop = EarlyStopping("validation_cost", patience=9)
    callbacks = [every(runner), PeriodicTrigger(ModelSaver(), every_k_epochs=9), stop]
    launch(callbacks=callbacks, max_epoch=3, extra_callbacks=[])
    return stop


@pytest.mark.parametrize("wrapper", [PeriodicTrigger, PeriodicCallback])
def test_validation_in_every_second_epoch(log_dir, log_lines, wrapper):
    """A statistic that a periodic callback reports in the second epoch is a warning in the first one."""
    assert validate(lambda runner: wrapper(runner, every_k_epochs=2)).best is not None
    (line,) = [line for line in log_lines if "has not been reported" in line]
    assert f"{wrapper.__name__}-InferenceRunner may report it later." in line


def train_out_of_order(callbacks):
    """Train `Mean` for two epochs, with callbacks in a wrong order."""
    launch(callbacks=callbacks, max_epoch=2, extra_callbacks=[])


def test_a_saver_before_its_statistic(log_dir, log_lines):
    """A saver that is called before the runner that reports its statistic says so in each epoch, and where to put it."""
    saver = MinSaver("validation_cost", strict=False)
    train_out_of_order([ModelSaver(), saver, InferenceRunner(threes(1), [ScalarStats("cost")])])
    advice = (
        "InferenceRunner reports 'validation_cost' only after MinSaver was called. Put MinSaver behind InferenceRunner and behind "
        "ModelSaver."
    )
    assert [
        f"MinSaver: statistic 'validation_cost' has not been reported. {advice}",
        f"MinSaver: 'validation_cost' is best at step 1, but the latest checkpoint is model-2, so there is nothing to copy. {advice}",
    ] == [line for line in log_lines if line.startswith("MinSaver: ")]


def test_a_saver_before_a_periodic_validation(log_dir, log_lines):
    """The same is said at the end of an epoch in which the runner was not due."""
    runner = PeriodicTrigger(InferenceRunner(threes(1), [ScalarStats("cost")]), every_k_epochs=2)
    train_out_of_order([ModelSaver(), EarlyStopping("validation_cost"), runner])
    (line,) = [line for line in log_lines if "has not been reported" in line]
    assert "Put EarlyStopping behind InferenceRunner. PeriodicTrigger-InferenceRunner may report it" in line


def test_advice_on_order():
    """There is advice if the only callback that reports the statistic is behind the one that reads it."""
    stop = EarlyStopping("validation_cost")
    first, second = (InferenceRunner(threes(1), [ScalarStats("cost")], name) for name in ("a", "b"))
    error = InferenceRunner(threes(1), [ClassificationError(), BinaryClassificationStats("a", "b")])
    group = Callbacks([PeriodicTrigger(first, every_k_epochs=2)])
    assert "Put EarlyStopping behind InferenceRunner." in advice_on_order([stop, group], stop, "validation_cost")
    for name in ("validation_error", "val_precision", "val_recall"):
        assert "" != advice_on_order([stop, error], stop, name)
    for callbacks in ([group, stop], [first, stop, second], [stop, error], [first]):
        assert "" == advice_on_order(callbacks, stop, "validation_cost")


def test_a_callback_of_the_user(log_lines):
    """A callback of the user may report a statistic in a later epoch, unless its name looks misspelt."""
    stop = EarlyStopping("accuracy")
    run(CountingTrainer(), [PutValues("accuracy", [None, 1.0]), PutValues("cost", [1.0, 1.0]), stop])
    assert (4, 1.0) == stop.best
    assert 1 == len([line for line in log_lines if "PutValues may report it later." in line])


def test_who_may_report_later():
    """Wrappers that were not due, and callbacks of the user, may report later; savers report nothing."""

    class Users(Callback):
        pass

    saver = PeriodicTrigger(ModelSaver(checkpoint_dir="none"), every_k_epochs=2)
    other = EnableCallbackIf(EstimatedTimeLeft(), lambda self: False)
    users, factory = Users(), CallbackFactory(trigger=print)
    never = CallbackFactory(setup_graph=print, before_train=print, after_train=print)
    assert None is find_late_reporter([never], "error", ["cost"])
    assert None is find_late_reporter([saver, EstimatedTimeLeft()], "error", [])
    assert other is find_late_reporter([saver, Callbacks([other])], "eror", ["error"])
    assert [users, factory] == [find_late_reporter([one], "error", ["cost"]) for one in (users, factory)]
    assert [None, None] == [find_late_reporter([one], "eror", ["error"]) for one in (users, factory)]


def test_an_old_script(monkeypatch, log_lines):
    """In a script that `tensorpack-lite run` starts, it is a warning, as in tensorpack."""
    complete_for_old_scripts(monkeypatch, statistic_reader)
    assert 3 == train(EarlyStopping(MISSPELT))
    assert 3 == len([line for line in log_lines if "has not been reported" in line])


def test_a_rank_that_is_not_the_chief(log_lines):
    """Only the chief has all statistics, so the others log a warning."""
    trainer = CountingTrainer()
    trainer.is_chief = False
    run(trainer, [EarlyStopping("error").set_chief_only(False)])
    assert 2 == len([line for line in log_lines if "has not been reported" in line])
