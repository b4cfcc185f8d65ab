"""Directories of training runs with unusual names, relative ones, and those on file systems without fsync or flock."""

from __future__ import annotations

import errno
import fcntl
import os

import numpy as np
import pytest
from fakes.checkpoints import train
from fakes.recording import PutValues

from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.predict.config import PredictConfig
from tensorpack_lite.predict.export import ModelExporter
from tensorpack_lite.tfutils.best_checkpoint import find_best
from tensorpack_lite.tfutils.checkpoint_background import VariableWriter
from tensorpack_lite.tfutils.checkpoint_store import CheckpointStore
from tensorpack_lite.tfutils.sessinit import SmartInit
from tensorpack_lite.tfutils.varmanip import load_checkpoint_vars, save_checkpoint_vars
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.fs import flush_to_disk
from tensorpack_lite.utils.training_lock import TrainingLock

NAMES = ["exp[lr=0.1]", "a\\b", "a]b", "what*?{x}", " two words"]
UNSUPPORTED = ["EINVAL", "ENOTSUP", "EACCES", "ENOSYS"]


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_written_and_read(tmp_path, sess, name):
    """Characters of patterns in the path of a checkpoint change nothing for those who read it."""
    directory = tmp_path / name
    directory.mkdir()
    path = str(directory / f"model-{name}")
    save_checkpoint_vars({"w": np.float32([1, 2])}, path)
    weight = tf.get_variable("w", initializer=np.zeros(2, "float32"))
    init = SmartInit(path)
    init.init(sess)
    assert [1, 2] == sess.run(weight).tolist()
    assert [1, 2] == load_checkpoint_vars(path)["w"].tolist()
    writer = VariableWriter(tf.train.Saver([weight]))
    writer.write(path, writer.fetch(sess))
    writer.read_back(path)


class ChangeDirectory(Callback):
    """Changes the working directory in each epoch."""

    def __init__(self, path) -> None:
        self._path = str(path)

    def _trigger_epoch(self) -> None:
        os.chdir(self._path)


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_training(tmp_path, monkeypatch, asynchronous):
    """
    A training writes to one directory, with brackets in the names of the directory and of a statistic, although the working
    directory changes.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    directory = "exp[lr=0.1]"
    train(
        [
            PutValues("error[0]", [3, 1, 2]),
            ModelSaver(checkpoint_dir=directory, asynchronous=asynchronous),
            MinSaver("error[0]", checkpoint_dir=directory),
            ChangeDirectory(tmp_path / "elsewhere"),
        ],
        epochs=3,
    )
    assert [] == os.listdir(str(tmp_path / "elsewhere"))
    assert str(tmp_path / directory / "min-error[0]") == find_best(str(tmp_path / directory))
    assert "model-6" == CheckpointStore(str(tmp_path / directory), "test").latest()


def test_the_log_directory_is_absolute(tmp_path, monkeypatch):
    """A relative directory for the log stays where it is if the working directory changes."""
    monkeypatch.chdir(tmp_path)
    logger.set_logger_dir("train_log/x", action="k")
    monkeypatch.chdir("/")
    assert str(tmp_path / "train_log" / "x") == logger.get_logger_dir()


@pytest.mark.parametrize("path", ["serving[1]", "a\\b/1"])
def test_a_savedmodel_that_tensorflow_could_not_load(tmp_path, path):
    """A path from which TensorFlow cannot load a SavedModel is refused before anything is written."""
    config = PredictConfig(
        tower_func=lambda x: tf.identity(x, name="y"),
        input_signature=[tf.TensorSpec([], tf.float32, "x")],
        input_names=["x"],
        output_names=["y"],
    )
    with pytest.raises(ValueError, match="export_serving: TensorFlow cannot load a SavedModel from"):
        ModelExporter(config).export_serving(str(tmp_path / path))
    assert [] == os.listdir(str(tmp_path))


def failing(name):
    """Return a function that raises an OSError."""

    def fail(*args):
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))

    return fail


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_file_system_without_fsync(tmp_path, monkeypatch, log_lines, name):
    """On a file system that cannot flush, checkpoints are written all the same, with one warning."""
    monkeypatch.setattr(os, "fsync", failing(name))
    paths = [str(tmp_path / f"model-{step}") for step in (1, 2)]
    for path in paths:
        save_checkpoint_vars({"w": np.zeros(3)}, path)
    assert [["w"], ["w"]] == [list(load_checkpoint_vars(path)) for path in paths]
    assert 1 == len([line for line in log_lines if "cannot flush files or directories" in line])


@pytest.mark.parametrize("name", ["EIO", "ENOSPC"])
def test_a_disk_that_fails(tmp_path, monkeypatch, name):
    """A disk that fails or is full is an error that names the file."""
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(os, "fsync", failing(name))
    with pytest.raises(OSError, match="cannot flush to the disk: .*file") as caught:
        flush_to_disk(str(tmp_path / "file"))
    assert getattr(errno, name) == caught.value.errno


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_file_system_without_flock(tmp_path, monkeypatch, name):
    """On a file system that cannot lock files, a training starts all the same, with one warning, and others still see it."""
    monkeypatch.setattr(fcntl, "flock", failing(name))
    told: list = []
    lock = TrainingLock(str(tmp_path), told.append)
    for _ in range(2):
        lock.acquire(0)
        assert os.getpid() == TrainingLock.holding_process(str(tmp_path))
        lock.release()
    assert 1 == len(told)
    assert "cannot lock files" in told[0]
