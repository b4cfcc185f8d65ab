"""Training locks the logger's directory: when, and for how long."""

from __future__ import annotations

import os
from unittest import mock

import pytest
from fakes.models import Mean, threes
from fakes.trainers import CountingTrainer, run

from tensorpack_lite import trainv1
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import CallbackFactory
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer


@pytest.fixture
def is_locked(log_dir):
    """Tells whether there is a lock in the logger's directory."""
    return lambda: os.path.exists(os.path.join(log_dir, "training.lock"))


class Noting(DictRestore):
    """Notes whether the directory is locked when variables are restored."""

    def __init__(self, is_locked):
        super().__init__({})
        self.is_locked, self.seen = is_locked, []

    def _run_init(self, sess):
        self.seen.append(self.is_locked())


class Fails(Mean):
    """A model that cannot be built."""

    def build_graph(self, *inputs):
        raise ArithmeticError("in the model")


def test_as_long_as_training(is_locked):
    """The lock is there before variables are restored and until every callback has had after_train; then it is gone."""
    seen = {}

    def note(moment):
        return lambda _: seen.update({moment: is_locked()})

    moments = ("setup_graph", "before_train", "trigger", "after_train")
    restore = Noting(is_locked)
    for _ in range(2):  # a process may train several times in one directory
        with tf.Graph().as_default():
            callback = CallbackFactory(**{moment: note(moment) for moment in moments})
            run(CountingTrainer(), [callback], session_init=restore)
        assert dict.fromkeys(moments, True) == seen
        assert not is_locked()
    assert [True, True] == restore.seen


@pytest.mark.parametrize("moment", ["setup_graph", "before_train", "trigger", "after_train"])
def test_an_error(is_locked, moment):
    """An error while callbacks are set up, in training or at its end releases the lock."""
    fail = mock.Mock(side_effect=ArithmeticError("mine"))
    with pytest.raises(ArithmeticError):
        run(CountingTrainer(), [CallbackFactory(**{moment: fail})])
    assert not is_locked()


def test_auto_resume(is_locked):
    """AutoResumeTrainConfig locks before it reads anything, and training releases what it has locked."""
    seen = []
    look = mock.Mock(side_effect=lambda *_: seen.append(is_locked()))
    with mock.patch.object(AutoResumeTrainConfig, "get_sessinit_resume", look):
        config = AutoResumeTrainConfig(dataflow=threes(), model=Mean(), max_epoch=1, steps_per_epoch=1)
    assert seen
    assert all(seen)
    launch_train_with_config(config, SimpleTrainer())
    assert not is_locked()


@pytest.mark.parametrize(
    "train",
    [
        lambda config: launch_train_with_config(config, SimpleTrainer()),
        lambda config: trainv1.SimpleTrainer(config).train(),
    ],
    ids=["launch_train_with_config", "trainv1"],
)
def test_a_model_that_cannot_be_built(is_locked, train):
    """The lock of AutoResumeTrainConfig is released when building fails."""
    config = trainv1.AutoResumeTrainConfig(dataflow=threes(), model=Fails(), steps_per_epoch=1)
    assert is_locked()
    with pytest.raises(ArithmeticError, match="in the model"):
        train(config)
    assert not is_locked()


def test_another_rank(is_locked, monkeypatch):
    """Only the chief of several ranks takes the lock."""
    monkeypatch.setenv("HOROVOD_RANK", "1")
    AutoResumeTrainConfig(steps_per_epoch=1)
    assert not is_locked()

    trainer = CountingTrainer()
    trainer.is_chief = False
    seen = []
    note = CallbackFactory(trigger=lambda _: seen.append(is_locked())).set_chief_only(False)
    run(trainer, [note], epochs=1)
    assert [False] == seen


def test_a_config_without_resuming(is_locked):
    """A TrainConfig reads nothing and takes no lock."""
    TrainConfig(steps_per_epoch=1)
    assert not is_locked()


def test_without_a_directory(tmp_path, monkeypatch):
    """A training without a logger directory leaves no lock anywhere."""
    monkeypatch.chdir(tmp_path)
    run(CountingTrainer(), [], epochs=1)
    assert [] == os.listdir(str(tmp_path))
