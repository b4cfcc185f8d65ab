"""train/config.py: TrainConfig and resuming."""

from __future__ import annotations

import json
import os
import socket

import pytest
from fakes.models import Mean, threes
from fakes.old_scripts import complete_for_old_scripts

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop import state
from tensorpack_lite.tfutils.sesscreate import NewSessionCreator
from tensorpack_lite.tfutils.sessinit import DictRestore, JustCurrentSession
from tensorpack_lite.train import DEFAULT_CALLBACKS, DEFAULT_MONITORS, config
from tensorpack_lite.train.config import AutoResumeTrainConfig, TrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer


class TestTrainConfig:
    def test_defaults(self):
        """Arguments that are not given have the documented defaults."""
        config = TrainConfig(dataflow=threes(7), model=Mean())
        assert ([], None, None) == (config.callbacks, config.extra_callbacks, config.monitors)
        assert isinstance(config.session_creator, NewSessionCreator)
        assert isinstance(config.session_init, JustCurrentSession)
        assert (1, 7, 99999) == (config.starting_epoch, config.steps_per_epoch, config.max_epoch)

    def test_steps_from_input_source(self):
        """The size of an InputSource is the default of steps_per_epoch."""
        assert 7 == TrainConfig(data=FeedInput(threes(7))).steps_per_epoch

    def test_numbers_are_whole(self):
        """Floats are converted to integers."""
        config = TrainConfig(steps_per_epoch=10.0, starting_epoch=2.0, max_epoch=3.0)
        assert (10, 2, 3) == (config.steps_per_epoch, config.starting_epoch, config.max_epoch)

    def test_no_steps_in_an_old_script(self, monkeypatch):
        """Under `tensorpack-lite run`, steps_per_epoch=0 means no steps, as in tensorpack, not the default."""
        complete_for_old_scripts(monkeypatch, state)
        monkeypatch.setattr(config, "check_steps", state.check_steps)
        assert 0 == TrainConfig(dataflow=threes(7), steps_per_epoch=0).steps_per_epoch

    def test_anything_smart_init_takes(self):
        """session_init may be any argument of SmartInit."""
        assert isinstance(TrainConfig(steps_per_epoch=1, session_init={}).session_init, JustCurrentSession)


def test_defaults_are_new_each_time():
    """The default callbacks and monitors are new objects at each call, in a fixed order."""
    names = [type(cb).__name__.split("_")[0] for cb in DEFAULT_CALLBACKS()]
    assert ["MovingAverageSummary", "ProgressBar", names[2], "RunUpdateOps"] == names[:4]
    assert ["ManifestWriter", "Speed", "ReportWriter"] == names[4:]
    assert ["TFEventWriter", "JSONWriter", "ScalarTable"] == [type(m).__name__ for m in DEFAULT_MONITORS()]
    assert DEFAULT_CALLBACKS()[0] is not DEFAULT_CALLBACKS()[0]


class TestAutoResume:
    def train(self, config):
        with tf.Graph().as_default():
            trainer = SimpleTrainer()
            launch_train_with_config(config, trainer)
            return trainer

    def config(self, kind=AutoResumeTrainConfig, **kwargs):
        return kind(
            model=Mean(),
            dataflow=threes(),
            callbacks=[ModelSaver()],
            steps_per_epoch=5,
            **{"max_epoch": 2, **kwargs},
        )

    def test_no_logger_dir(self):
        """Without a logger directory, training starts from the beginning without an error."""
        config = AutoResumeTrainConfig(steps_per_epoch=1)
        assert 1 == config.starting_epoch
        assert isinstance(config.session_init, JustCurrentSession)

    @pytest.mark.parametrize("kind", [AutoResumeTrainConfig, TrainConfig])
    def test_nothing_is_saved(self, log_dir, log_lines, kind):
        """Lint has a remark if a training that is to resume saves no checkpoint."""
        config = self.config(kind, max_epoch=1)
        config.callbacks = []
        self.train(config)
        told = [line for line in log_lines if "nothing saves a checkpoint, so a later start cannot resume" in line]
        assert (kind is AutoResumeTrainConfig) == bool(told)

    @pytest.mark.parametrize("count", ["0", "2"])
    def test_a_restarted_job_without_a_checkpoint(self, log_dir, monkeypatch, log_lines, count):
        """If the launcher says that this is a restart, an empty directory is a warning with its name and that of the machine."""
        monkeypatch.setenv("SLURM_RESTART_COUNT", count)
        assert 1 == self.config().starting_epoch
        told = [line for line in log_lines if line.startswith("This is restart 2 of the job")]
        assert (count == "2") == bool(told)
        assert all(f"{log_dir} on {socket.gethostname()} has no checkpoint" in line for line in told)
        assert all(line.endswith("See docs/several_machines.md.") for line in told)

    @pytest.mark.slow
    def test_third_training_from_the_start(self, log_dir):
        """A training that does not resume renames the old stats.json."""
        self.train(self.config())
        self.train(self.config(TrainConfig))
        assert 2 == len([name for name in os.listdir(log_dir) if name.startswith("stats.json")])

    @pytest.mark.slow
    def test_users_values_win_when_asked(self, log_dir):
        """With always_resume=False, the given session_init and starting_epoch are used."""
        self.train(self.config())
        mine = DictRestore({})
        config = self.config(always_resume=False, session_init=mine)
        assert config.session_init is mine
        assert 3 == config.starting_epoch
        assert 7 == self.config(always_resume=False, starting_epoch=7).starting_epoch

    @pytest.mark.slow
    def test_statistics_without_a_checkpoint(self, log_dir):
        """Without a checkpoint, training starts with epoch 1, and the old stats.json is renamed."""
        self.train(self.config())
        os.remove(os.path.join(log_dir, "checkpoint"))
        config = self.config()
        assert (1, JustCurrentSession) == (config.starting_epoch, type(config.session_init))
        self.train(config)
        with open(os.path.join(log_dir, "stats.json")) as f:
            assert [1, 2] == [entry["epoch_num"] for entry in json.load(f)]
        assert 2 == len([name for name in os.listdir(log_dir) if name.startswith("stats.json")])
