"""The lock on the logger's directory: when training takes and releases it."""

from __future__ import annotations

import os
from unittest import mock

import pytest
from fakes.models import Mean, threes
from fakes.trainers import CountingTrainer, launch, run

from tensorpack_lite import trainv1
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.sessinit import DictRestore
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger


@pytest.fixture
def is_locked(log_dir):
    """Return a function that tells whether the logger's directory is locked."""
    return lambda: os.path.exists(os.path.join(log_dir, "training.lock"))


class Noting(DictRestore):
    """Records whether the directory is locked when variables are restored."""

    def __init__(self, is_locked):
        super().__init__({})
        self.is_locked, self.seen = is_locked, []

    def _run_init(self, sess):
        self.seen.append(self.is_locked())


class Fails(Mean):
    """A model that raises an error while it is built."""

    def build_graph(self, *inputs):
        raise ArithmeticError("in the model")


def test_as_long_as_training(is_locked):
    """The lock is held from before variables are restored until `after_train` of every callback is done."""
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
    """AutoResumeTrainConfig takes the lock before it reads the directory, and training releases it."""
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
    """If building the model fails, the lock of AutoResumeTrainConfig is released."""
    config = trainv1.AutoResumeTrainConfig(dataflow=threes(), model=Fails(), steps_per_epoch=1)
    assert is_locked()
    with pytest.raises(ArithmeticError, match="in the model"):
        train(config)
    assert not is_locked()


def test_another_rank(is_locked, monkeypatch):
    """Only the chief of several ranks takes the lock."""
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    AutoResumeTrainConfig(steps_per_epoch=1)
    assert not is_locked()

    trainer = CountingTrainer()
    trainer.is_chief = False
    seen = []
    note = CallbackFactory(trigger=lambda _: seen.append(is_locked())).set_chief_only(False)
    run(trainer, [note], epochs=1)
    assert [False] == seen


@pytest.mark.parametrize("action", ["k", "b", "d"])
@pytest.mark.parametrize("config", [TrainConfig, AutoResumeTrainConfig])
def test_a_rank_that_trains_alone(tmp_path, monkeypatch, action, config):
    """A trainer for one process in rank 1 of several raises an error before it writes into the directory that rank 0 changes."""
    directory = tmp_path / "log"
    directory.mkdir()
    (directory / "log.log").write_text("[1126 22:30:36 @logger.py:191] Argv: old.py\n")
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    logger.set_logger_dir(str(directory), action)
    with pytest.raises(
        RuntimeError,
        match=r"rank 1 \(by SLURM_PROCID\).* trains alone\..*HorovodTrainer.* TENSORPACK_RANKS_SIZE=1, .* of its own",
    ):
        launch(kind=config)
    logs = {"log.log"} if action == "b" else {"log.log", "log-rank1.log"}
    assert logs == set(os.listdir(str(directory)))


def test_ranks_that_train_separately(tmp_path, monkeypatch):
    """With TENSORPACK_RANKS_SIZE=1, such a process trains in its own directory."""
    monkeypatch.setenv("SLURM_PROCID", "1")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("TENSORPACK_RANKS_SIZE", "1")
    logger.set_logger_dir(str(tmp_path / "1"), "b")
    launch()
    assert (tmp_path / "1" / "manifest.json").exists()


def test_a_rank_of_several(tmp_path, monkeypatch):
    """A trainer that is not the chief trains without the lock in a directory that rank 0 owns."""
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    logger.set_logger_dir(str(tmp_path / "log"), "b")
    trainer = CountingTrainer()
    trainer.is_chief = False
    run(trainer, [], epochs=1)
    assert not (tmp_path / "log").exists()


def test_a_config_without_resuming(is_locked):
    """A plain TrainConfig takes no lock."""
    TrainConfig(steps_per_epoch=1)
    assert not is_locked()


def test_without_a_directory(tmp_path, monkeypatch):
    """A training without a logger directory takes no lock."""
    monkeypatch.chdir(tmp_path)
    run(CountingTrainer(), [], epochs=1)
    assert [] == os.listdir(str(tmp_path))
