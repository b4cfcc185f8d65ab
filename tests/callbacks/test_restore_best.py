"""`restore_best` of MinSaver, MaxSaver and TopKSaver, and SmartInit for the best checkpoint of a directory."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fakes.checkpoints import files_of, names, train, value_in
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.best_saver import MinSaver
from tensorpack_lite.callbacks.early_stopping import EarlyStopping
from tensorpack_lite.callbacks.ema import EMAWeights, SwapEMAWeights
from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.best_checkpoint import BestCheckpoint, find_best, list_best
from tensorpack_lite.tfutils.sessinit import SaverRestore, SmartInit
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars
from tensorpack_lite.train.config import AutoResumeTrainConfig


class End(Callback):
    """Reads all variables in `after_train`."""

    def __init__(self) -> None:
        self.values = {}

    def _after_train(self) -> None:
        self.values = {v.op.name: self.trainer.sess.run(v) for v in tf.global_variables()}


def read_x(callback):
    """Return the value of the variable x."""
    return callback.trainer.sess.run(next(v for v in tf.global_variables() if v.op.name == "x"))


def trained(directory, best, values, *callbacks, **arguments):
    """Train one epoch of two steps a value. Return the variables at the end; x is the number of steps."""
    end = End()
    saver = ModelSaver(checkpoint_dir=str(directory))
    train([PutValues("error", values), saver, best, *callbacks, end], epochs=len(values), **arguments)
    return end.values


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (lambda **a: MinSaver("error", restore_best=True, **a), 4.0),
        (lambda **a: MinSaver("error", reverse=True, restore_best=True, **a), 6.0),
        (lambda **a: TopKSaver("error", k=2, restore_best=True, **a), 4.0),
        (lambda **a: TopKSaver("error", k=2, mode="max", restore_best=True, **a), 6.0),
        (lambda **a: MinSaver("error", **a), 8.0),
    ],
)
def test_training_ends_with_the_best_model(tmp_path, make, x):
    """Callbacks behind the saver see the variables of the best step in `after_train`; by default, those of the last one."""
    assert x == trained(tmp_path, make(checkpoint_dir=str(tmp_path)), [3, 1, 4, 2])["x"]


def test_checkpoints_stay(tmp_path):
    """The checkpoints are those of a training without `restore_best`: the latest one is that of the last step."""
    trained(tmp_path, MinSaver("error", checkpoint_dir=str(tmp_path), restore_best=True), [1, 2, 3])
    models = [file for step in (2, 4, 6) for file in files_of(f"model-{step}")]
    assert models == [name for name in names(tmp_path) if name.startswith("model")]
    assert 6.0 == load_checkpoint_vars(str(tmp_path / "checkpoint"))["x"]
    assert 2.0 == value_in(tmp_path, "min-error")


def test_with_early_stopping(tmp_path):
    """A training that EarlyStopping ends has the best model, too."""
    best = MinSaver("error", checkpoint_dir=str(tmp_path), restore_best=True)
    values = trained(tmp_path, best, [3, 1, 2, 2, 2, 2], EarlyStopping("error", patience=2))
    assert 4.0 == values["x"]


def test_a_training_that_fails_restores_nothing(tmp_path):
    """After an error, the variables in `after_train` are those of the step that failed."""

    def fail(self):
        if self.epoch_num == 3:
            raise ValueError("a mistake")

    end = End()
    best = MinSaver("error", checkpoint_dir=str(tmp_path), restore_best=True)
    callbacks = [PutValues("error", [1, 2, 3]), ModelSaver(checkpoint_dir=str(tmp_path)), best]
    with pytest.raises(ValueError, match="a mistake"):
        train([*callbacks, CallbackFactory(trigger=fail), end], epochs=3)
    assert 6.0 == end.values["x"]


def test_without_a_best_model(tmp_path, log_lines):
    """If no value was a number, there is a warning, and the variables stay."""
    best = MinSaver("error", checkpoint_dir=str(tmp_path), restore_best=True)
    assert 4.0 == trained(tmp_path, best, [float("nan")] * 2)["x"]
    assert any("there is no best model to restore" in line for line in log_lines)


def test_asynchronous_saves(tmp_path):
    """The copy is complete when it is restored, also if checkpoints are written in a thread."""
    end = End()
    best = MinSaver("error", checkpoint_dir=str(tmp_path), restore_best=True)
    saver = ModelSaver(checkpoint_dir=str(tmp_path), asynchronous=True)
    train([PutValues("error", [2, 3, 1]), saver, best, end], epochs=3)
    assert 6.0 == end.values["x"]


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_a_resumed_training_goes_on_from_its_end(log_dir, exact):
    """A training that ended with its best model is continued from its last step, and may end with the earlier best one."""
    for values, expected in ([3, 1], 4.0), ([2, 2], 4.0), ([0.5, 9], 10.0):
        done = 0 if expected == 4.0 and values == [3, 1] else 4 if values == [2, 2] else 8
        config = AutoResumeTrainConfig(steps_per_epoch=2, max_epoch=done // 2 + 2, exact=exact)
        end, first = End(), []
        start, init = config.starting_epoch, config.session_init
        with tf.Graph().as_default():
            trainer = CountingTrainer()
            note = CallbackFactory(before_train=lambda self, first=first: first.append(read_x(self)))
            callbacks = [
                note,
                PutValues("error", values),
                ModelSaver(),
                MinSaver("error", restore_best=True),
                end,
            ]
            run(trainer, callbacks, epochs=done // 2 + 2, starting_epoch=start, session_init=init)
        assert [done] == first
        assert expected == end.values["x"]


def averaged(directory, **arguments):
    """Train with averages, which are validated; return the variables at the end, and those after each epoch."""
    history, end, ema = [], End(), EMAWeights(0.5)

    class Validate(Callback):
        def _trigger(self):
            x = read_x(self)
            history.append(x)
            self.trainer.monitors.put_scalar("error", abs(x - 4.0))

    callbacks = [
        ema,
        ModelSaver(checkpoint_dir=str(directory)),
        SwapEMAWeights(Validate(), ema),
        MinSaver("error", checkpoint_dir=str(directory), **arguments),
        end,
    ]
    with tf.Graph().as_default():
        run(CountingTrainer(), callbacks, epochs=6)
    return end.values, history


def test_with_averages(tmp_path):
    """With "averages", training ends with the averages that were validated at the best step; with True, with its weights."""
    values, history = averaged(tmp_path / "a", restore_best="averages")
    nearest = min(history, key=lambda x: abs(x - 4.0))
    np.testing.assert_allclose(values["x"], nearest, rtol=1e-6)
    assert values["x"] == values["x/ExponentialMovingAverage"]

    weights, _ = averaged(tmp_path / "b", restore_best=True)
    assert weights["x"] == 2.0 * (1 + history.index(nearest))
    assert weights["x/ExponentialMovingAverage"] == values["x"]


def test_averages_without_ema(tmp_path):
    """Without an EMAWeights, "averages" is an error before training, which explains what to do."""
    with pytest.raises(ValueError, match="restore_best='averages' needs averages. Add an EMAWeights"):
        trained(tmp_path, MinSaver("error", checkpoint_dir=str(tmp_path), restore_best="averages"), [1])


@pytest.mark.parametrize("make", [MinSaver, TopKSaver])
def test_unknown_values(make):
    """Another value raises ValueError."""
    with pytest.raises(ValueError, match=f"{make.__name__}: restore_best"):
        make("error", restore_best="weights")


class TestSmartInit:
    def test_best_and_latest(self, tmp_path):
        """A directory means its latest checkpoint, or with "best" the copy of a saver."""
        trained(tmp_path, MinSaver("error", checkpoint_dir=str(tmp_path)), [3, 1, 2])
        assert str(tmp_path / "min-error") == find_best(str(tmp_path))
        best, latest = SmartInit(str(tmp_path), checkpoint="best"), SmartInit(str(tmp_path))
        assert ["min-error", "model-6"] == [os.path.basename(one.path) for one in (best, latest)]
        assert isinstance(best, SaverRestore)

    def test_the_best_of_several(self, tmp_path):
        """Of TopKSaver, the first copy is the best one. A MinSaver of the same statistic names the same step."""
        directory = str(tmp_path)
        top = TopKSaver("error", k=2, checkpoint_dir=directory)
        trained(tmp_path, top, [3, 1, 2], MinSaver("error", checkpoint_dir=directory))
        listed = [
            BestCheckpoint("min-error", "error", 4, 1.0),
            BestCheckpoint("top-error-4", "error", 4, 1.0),
        ]
        assert listed == list(list_best(directory))
        assert os.path.join(directory, "min-error") == find_best(directory)

    def test_several_statistics(self, tmp_path):
        """If savers disagree, the error lists their copies with values."""
        directory = str(tmp_path)
        trained(
            tmp_path,
            MinSaver("error", checkpoint_dir=directory),
            [3, 1, 2],
            MinSaver("error", reverse=True, checkpoint_dir=directory),
        )
        expected = (
            r"several best checkpoints in .*: max-error \('error' = 3\), min-error \('error' = 1\). Pass the path"
        )
        with pytest.raises(ValueError, match=expected):
            SmartInit(directory, checkpoint="best")

    def test_no_best_checkpoint(self, tmp_path):
        """A directory without copies raises an error that names the savers. Other JSON files and lost copies do not count."""
        (tmp_path / "manifest.json").write_text('{"format": 1}')
        (tmp_path / "broken.json").write_text("{")
        (tmp_path / "list.json").write_text("[]")
        (tmp_path / "min-gone.json").write_text('{"stat": "gone", "step": 2, "value": 1.0}')
        with pytest.raises(ValueError, match="There is no best checkpoint in .*MinSaver, MaxSaver or TopKSaver"):
            SmartInit(str(tmp_path), checkpoint="best")

    def test_other_objects(self, tmp_path):
        """Paths of files, dictionaries and lists load as without the argument; other values of it raise ValueError."""
        trained(tmp_path, MinSaver("error", checkpoint_dir=str(tmp_path)), [3, 1])
        assert "model-2" in SmartInit(str(tmp_path / "model-2"), checkpoint="best").path
        chain = SmartInit([str(tmp_path), {"x": np.float32(1)}], checkpoint="best")
        assert "min-error" in chain.inits[0].path
        with pytest.raises(ValueError, match="SmartInit: checkpoint"):
            SmartInit(str(tmp_path), checkpoint="last")
