"""train/resume.py: the place of a training in its checkpoint, and training runs that resume there."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest
from fakes.trainers import CountingTrainer, Killed, launch, run_resumed

from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.dataflow.batch import BatchData
from tensorpack_lite.dataflow.raw import DataFromList
from tensorpack_lite.dataflow.repeat import RepeatedData
from tensorpack_lite.graph_builder.model_desc import ModelDesc
from tensorpack_lite.input_source.feed import FeedInput
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.models.fc import FullyConnected
from tensorpack_lite.tfutils.sessinit import ChainInit, DictRestore, SaverRestore
from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.interface import launch_train_with_config
from tensorpack_lite.train.simple import SimpleTrainer
from tensorpack_lite.utils import logger
from tensorpack_lite.utils.random_streams import advance_rng_seed, fix_rng_seed


class Tally(Callback):
    """Records its triggers, reports their number to the monitors, and keeps its records in checkpoints."""

    def __init__(self, name, kill=lambda note: False):
        self.name, self.notes, self._kill = name, [], kill

    def _note(self, moment):
        note = [moment, self.epoch_num, self.local_step, self.global_step]
        if self._kill((self.name, *note)):
            raise Killed
        self.notes.append(note)

    def _trigger_step(self):
        self._note("step")
        if self.local_step == 1:
            self.trainer.monitors.put_scalar(f"{self.name}-step", len(self.notes))

    def _after_epoch(self):
        if self._kill((self.name, "after_epoch", self.epoch_num)):
            raise Killed

    def _trigger_epoch(self):
        self._note("epoch")
        self.trainer.monitors.put_scalar(self.name, len(self.notes))

    def state_dict(self):
        return {"notes": self.notes}

    def load_state_dict(self, state):
        self.notes = state["notes"]

    def __str__(self):
        return f"Tally-{self.name}"


def every_epoch():
    return ModelSaver(max_to_keep=2)


def train(saver=every_epoch, kill=lambda note: False, steps=4, epochs=3, more=(), make=CountingTrainer, **kwargs):
    """Train like a script with a custom trainer. Return the trainer."""
    callbacks = [Tally("first", kill), saver(), Tally("last", kill), *more]
    with tf.Graph().as_default():
        trainer = run_resumed(make(), callbacks, [JSONWriter(), CSVWriter()], steps, epochs, **kwargs)
    trainer.tallies = [callbacks[0].notes, callbacks[2].notes]
    return trainer


class Changed(ModelDesc):
    """A model with one layer."""

    def __init__(self, name, units):
        self._name, self._units = name, units

    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "x")]

    def build_graph(self, x):
        return tf.reduce_mean(FullyConnected("fc", FullyConnected(self._name, x, self._units), 1))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "units", "error", "message"),
    [
        ("first", 4, ValueError, r"first/W \(2, 4\) \(in the checkpoint \(2, 3\)\).*"),
        (
            "second",
            3,
            RuntimeError,
            r"model-1 does not have second/W, second/b, which keep their initial values.*",
        ),
        ("second", 3, None, r"model-1 does not have second/W, second/b, which keep their initial values.*"),
    ],
)
def test_a_changed_model(log_dir, log_lines, name, units, error, message):
    """If the model has changed since the checkpoint, the message mentions it, and explains how to begin again with other weights or none."""
    message += r"The model has changed.*set_logger_dir.*always_resume=False.*SmartInit\(path, ignore_mismatch=True\)"

    def train_model(model, max_epoch, exact=False):
        launch(
            kind=AutoResumeTrainConfig,
            model=model,
            data=FeedInput(BatchData(DataFromList([[np.ones(2, "float32")]]), 1)),
            callbacks=[ModelSaver()],
            extra_callbacks=[],
            monitors=[],
            max_epoch=max_epoch,
            exact=exact,
        )

    train_model(Changed("first", 3), 1, exact="require")
    if error is None:
        train_model(Changed(name, units), 2)
        assert any(re.search(message, line) for line in log_lines)
    else:
        with pytest.raises(error, match=message):
            train_model(Changed(name, units), 2, exact="require")


def rows():
    """Return the rows of `stats.json`, after checking that `stats.csv` has as many."""
    directory = logger.get_logger_dir()
    with open(os.path.join(directory, "stats.json")) as file:
        found = json.load(file)
    with open(os.path.join(directory, "stats.csv")) as file:
        assert len(found) == len(file.readlines()) - 1
    return found


def x_of_latest():
    """Return the value of the variable `x`, which counts steps, in the latest checkpoint."""
    path = tf.train.latest_checkpoint(logger.get_logger_dir())
    return tf.train.NewCheckpointReader(path).get_tensor("x")


def start_over(tmp_path, name):
    """Use another logger directory from now on."""
    logger.set_logger_dir(str(tmp_path / name), action="d")


def remove_states():
    """Turn all checkpoints into those of an earlier version, which wrote no `.state` files."""
    directory = logger.get_logger_dir()
    for name in os.listdir(directory):
        if name.endswith(".state"):
            os.remove(os.path.join(directory, name))


class TestEveryPoint:
    SAVERS = {
        "every epoch": every_epoch,
        "every second epoch": lambda: PeriodicTrigger(ModelSaver(), every_k_epochs=2),
        "every 3 steps": lambda: PeriodicTrigger(ModelSaver(), every_k_steps=3),
        "steps and epochs": lambda: PeriodicTrigger(ModelSaver(), every_k_steps=2, every_k_epochs=1),
    }

    @pytest.mark.matrix
    @pytest.mark.parametrize(
        "saver",
        [pytest.param(name, marks=pytest.mark.slow if name[:5] == "steps" else pytest.mark.full) for name in SAVERS],
    )
    def test_a_kill_at_every_point(self, tmp_path, saver):
        """A training that is killed and resumed at each trigger of each callback gives the results of an undisturbed one."""
        start_over(tmp_path, "undisturbed")
        points = []
        whole = train(self.SAVERS[saver], kill=lambda note: points.append(note))
        wanted = whole.tallies, rows(), x_of_latest()

        start_over(tmp_path, "killed")
        assert len(points) > 20
        for point in points:
            train(self.SAVERS[saver], kill=lambda note, point=point: note == point)
        found = train(self.SAVERS[saver])
        assert wanted == (found.tallies, rows(), x_of_latest())

    @pytest.mark.slow
    def test_inside_an_epoch(self, log_dir, log_lines):
        """A checkpoint saved inside an epoch resumes after that step, with the callbacks that follow the saver."""
        saver = self.SAVERS["every 3 steps"]
        assert train(saver, kill=lambda note: note[:4] == ("last", "step", 2, 1)).is_killed
        assert "model-6" == os.path.basename(tf.train.latest_checkpoint(log_dir))
        trainer = train(saver)
        assert "Resuming after step 2 of 4 of epoch 2 (global_step 6)." in log_lines
        assert [["step", 1 + i // 4, i % 4, i + 1] for i in range(12)] == [
            note for note in trainer.tallies[1] if note[0] == "step"
        ]

    @pytest.mark.slow
    def test_two_runs_a_step(self, tmp_path):
        """If a step runs the session several times, the epoch follows from the number of steps, not from `global_step`."""
        make, saver = (lambda: CountingTrainer(runs_per_step=2)), self.SAVERS["every 3 steps"]
        start_over(tmp_path, "undisturbed")
        wanted = train(saver, make=make).tallies, rows(), x_of_latest()
        start_over(tmp_path, "killed")
        train(saver, make=make, kill=lambda note: note[:4] == ("first", "step", 3, 2))
        found = train(saver, make=make)
        assert 24 == found.global_step
        assert wanted == (found.tallies, rows(), x_of_latest())


class TestStartedAgain:
    @pytest.mark.slow
    def test_with_the_same_max_epoch(self, log_dir, log_lines):
        """A finished training that is started again runs no step, leaves the rows unchanged, and says so."""
        train()
        before = rows()
        trainer = train()
        assert (
            "The training has ended: its checkpoint has all 3 epochs. To train longer, increase max_epoch." in log_lines
        )
        assert (12, 3) == (trainer.global_step, trainer.epoch_num)
        assert before == rows()

    def test_in_a_directory_that_was_moved(self, tmp_path):
        """The directory may be moved between two training runs."""
        start_over(tmp_path, "here")
        train(kill=lambda note: note == ("first", "step", 3, 1, 10))
        logger.reset()
        shutil.move(str(tmp_path / "here"), str(tmp_path / "there"))
        logger.set_logger_dir(str(tmp_path / "there"), action="k")
        train()
        assert [4, 8, 12] == [row["global_step"] for row in rows() if "last" in row]

    @pytest.mark.slow
    def test_saved_again_before_training(self, log_dir):
        """A checkpoint that a resumed training saves in `before_train` keeps the callbacks that were still due."""

        def saver():
            return PeriodicTrigger(ModelSaver(), every_k_epochs=1, before_train=True)

        train(saver, kill=lambda note: note[:3] == ("last", "epoch", 2))
        train(saver, kill=lambda note: True)
        assert [row["last"] for row in rows() if "last" in row] == [5]
        train(saver)
        assert [5, 10, 15] == [row["last"] for row in rows() if "last" in row]

    @pytest.mark.slow
    def test_saved_before_the_first_step(self, log_dir):
        """A checkpoint of step 0 resumes at the first step."""

        def saver():
            return PeriodicTrigger(ModelSaver(), every_k_epochs=9, before_train=True)

        train(saver, kill=lambda note: note[:3] == ("last", "epoch", 2))
        trainer = train(saver)
        assert (12, 1) == (trainer.global_step, trainer.starting_epoch)
        assert [5, 10, 15] == [row["last"] for row in rows() if "last" in row]

    def test_the_best_checkpoint_has_its_place(self, log_dir):
        """MinSaver copies the `.state` file too, and its best value survives a resume."""
        more = [MinSaver("first")]
        train(more=more, kill=lambda note: note == ("last", "epoch", 1, 3, 4))
        train(more=[MinSaver("first")])
        assert os.path.isfile(os.path.join(log_dir, "min-first.state"))
        with open(os.path.join(log_dir, "min-first.json")) as file:
            assert {"stat": "first", "step": 4, "value": 5.0} == json.load(file)


class TestChanges:
    @pytest.mark.slow
    def test_steps_per_epoch(self, log_dir, log_lines):
        """With another steps_per_epoch, training continues after the same number of steps, and logs a warning."""
        train(steps=4, epochs=3)
        trainer = train(steps=5, epochs=3)
        assert (3, 15) == (trainer.starting_epoch, trainer.global_step)
        assert any("steps_per_epoch was 4 and is 5" in line and "step 2 of epoch 3" in line for line in log_lines)

    @pytest.mark.slow
    def test_an_added_callback(self, log_dir, log_lines):
        """If a callback was added, the calls that were due are skipped, except those of monitors, and a warning names them."""
        train(kill=lambda note: note == ("last", "epoch", 2, 3, 8))
        trainer = train(more=[CallbackFactory()])
        assert any(line.endswith("are skipped: Tally-last.") for line in log_lines)
        assert 12 == trainer.global_step
        assert [1, 3] == [row["epoch_num"] for row in rows() if "last" in row]

    def test_a_removed_callback(self, log_dir, log_lines):
        """If a callback was removed, the others that were due are called."""
        train(more=[CallbackFactory()], kill=lambda note: note == ("last", "epoch", 2, 3, 8))
        train()
        assert [1, 2, 3] == [row["epoch_num"] for row in rows() if "last" in row]
        assert not any("are skipped" in line for line in log_lines)

    def test_a_state_without_its_callback(self, log_dir, log_lines):
        """The state of a callback that is no longer used is ignored, and the log names it."""
        train(more=[Tally("other")], epochs=1)
        train()
        assert "The checkpoint has states of callbacks that this training does not have: Tally-other." in log_lines


class TestRows:
    @pytest.mark.slow
    def test_later_rows_are_cut_off(self, log_dir, log_lines):
        """Rows written after the checkpoint are cut off, pending scalars are restored, and a copy of the first file is kept."""
        saver = TestEveryPoint.SAVERS["every second epoch"]
        train(saver, kill=lambda note: note == ("first", "epoch", 3, 3, 12))
        before = rows()
        assert [2, 4, 6, 8, 10] == [row["global_step"] for row in before]
        train(saver, kill=lambda note: note == ("last", "step", 3, 0, 9))
        assert [2, 4, 6, 8] == [row["global_step"] for row in rows()]
        with open(os.path.join(log_dir, "stats.json.before-resume")) as file:
            assert before == json.load(file)
        train(saver)
        assert [2, 4, 6, 8, 10, 12] == [row["global_step"] for row in rows()]
        with open(os.path.join(log_dir, "stats.json.before-resume")) as file:
            assert before == json.load(file)

    @pytest.mark.slow
    def test_a_damaged_file(self, log_dir, log_lines):
        """A damaged stats.json does not change the epoch; the file is kept, and a warning names it."""
        train(epochs=2)
        with open(os.path.join(log_dir, "stats.json"), "r+b") as file:
            file.truncate(30)
        trainer = train(epochs=3)
        assert (3, 12) == (trainer.starting_epoch, trainer.global_step)
        moved = [name for name in os.listdir(log_dir) if name.startswith("stats.json.")]
        assert 1 == len(moved)
        assert any(
            "stats.json cannot be read as the stats.json of a training" in line and moved[0] in line
            for line in log_lines
        )
        assert any("has only 0 of the 4 rows" in line for line in log_lines)


class TestEarlierVersions:
    def test_the_epoch_follows_from_the_rows(self, log_dir, log_lines):
        """Without a `.state` file, the epoch comes from the rows up to the checkpoint's step; later rows are cut off."""
        saver = TestEveryPoint.SAVERS["every second epoch"]
        train(saver, kill=lambda note: note == ("first", "epoch", 3, 3, 12))
        remove_states()
        trainer = train(saver)
        assert (3, 12) == (trainer.starting_epoch, trainer.global_step)
        assert [2, 4, 6, 8, 10, 12] == [row["global_step"] for row in rows()]
        assert any("model-8 has no .state file" in line and "its epoch is 2" in line for line in log_lines)

    def test_killed_before_the_row(self, log_dir):
        """The epoch of a checkpoint whose row is missing follows from its number of steps."""
        train(kill=lambda note: note == ("last", "epoch", 2, 3, 8))
        remove_states()
        assert 3 == AutoResumeTrainConfig(steps_per_epoch=4).starting_epoch

    def test_no_rows(self, log_dir, log_lines):
        """Without rows the epoch is unknown: a warning is logged, and the variables are restored."""
        train()
        remove_states()
        os.remove(os.path.join(log_dir, "stats.json"))
        config = AutoResumeTrainConfig(steps_per_epoch=4)
        assert 1 == config.starting_epoch
        assert isinstance(config.session_init, SaverRestore)
        assert any("The epoch of checkpoint" in line and "is unknown" in line for line in log_lines)

    def test_damaged_rows(self, log_dir):
        """With neither a state nor readable rows, the error names the file and the arguments to pass."""
        train()
        remove_states()
        with open(os.path.join(log_dir, "stats.json"), "w") as file:
            file.write("[{")
        with pytest.raises(
            ValueError, match=r"model-12 has no .state file.*stats.json cannot be read as .*starting_epoch="
        ):
            AutoResumeTrainConfig(steps_per_epoch=4)
        config = AutoResumeTrainConfig(steps_per_epoch=4, always_resume=False, starting_epoch=4, session_init={})
        assert 4 == config.starting_epoch


class TestArguments:
    @pytest.mark.slow
    def test_another_starting_epoch_wins(self, log_dir, log_lines):
        """With always_resume=False, a given starting_epoch is used together with the checkpoint's variables."""
        train(kill=lambda note: note == ("last", "epoch", 2, 3, 8))
        trainer = train(always_resume=False, starting_epoch=2)
        assert (2, 16) == (trainer.starting_epoch, trainer.global_step)
        assert any("Training starts with epoch 2, as given" in line for line in log_lines)

    def test_the_users_variables(self, log_dir):
        """With always_resume=False and a session_init, only the epoch comes from the checkpoint."""
        train(epochs=2)
        trainer = train(always_resume=False, session_init=DictRestore({"global_step": np.int64(100)}))
        assert (3, 104) == (trainer.starting_epoch, trainer.global_step)

    def test_more_variables(self, log_dir):
        """A ChainInit with the restored checkpoint carries the same state."""
        train(kill=lambda note: note == ("last", "epoch", 2, 3, 8))
        found = AutoResumeTrainConfig.get_sessinit_resume()
        chain = ChainInit([found, DictRestore({})])
        assert found.checkpoint_state is chain.checkpoint_state is not None

    @pytest.mark.slow
    def test_a_missing_checkpoint(self, log_dir, log_lines):
        """If the latest checkpoint listed does not exist, the one before it is used."""
        train(saver=ModelSaver)
        os.remove(os.path.join(log_dir, "model-12.index"))
        trainer = train(saver=ModelSaver)
        assert (3, 12) == (trainer.starting_epoch, trainer.global_step)
        assert any("model-12 is listed as the latest, but does not exist" in line for line in log_lines)


class TestRandomStreams:
    """A training with fixed seeds that records the datapoint and a random number of the graph at each step."""

    def run(self, max_epoch):
        seen = []

        class Model(ModelDesc):
            def inputs(self):
                return [tf.TensorSpec([], tf.float32, "x")]

            def build_graph(self, x):
                weight = tf.get_variable("weight", initializer=0.0)
                return tf.add(weight * x, tf.identity(tf.random_uniform([]), name="drawn"), name="cost")

            def optimizer(self):
                return tf.train.GradientDescentOptimizer(0.01)

        class Note(Callback):
            def _before_run(self, ctx):
                return ["x:0", "drawn:0"]

            def _after_run(self, ctx, values):
                seen.append(tuple(map(float, values.results)))

        fix_rng_seed(5)
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            config = AutoResumeTrainConfig(
                model=Model(),
                data=FeedInput(RepeatedData(DataFromList([[np.float32(i)] for i in range(8)], shuffle=True), -1)),
                callbacks=[ModelSaver(), Note()],
                steps_per_epoch=8,
                max_epoch=max_epoch,
            )
            launch_train_with_config(config, SimpleTrainer())
        return seen

    @pytest.mark.slow
    def test_a_resumed_training_does_not_repeat_the_first_epoch(self, log_dir, tmp_path):
        """A resumed training has another data order and other random numbers than epoch 1, the same ones at each resume."""
        first = self.run(max_epoch=1)
        shutil.copytree(log_dir, str(tmp_path / "copy"))
        resumed = self.run(max_epoch=2)
        assert 8 == len(resumed)
        assert [x for x, _ in first] != [x for x, _ in resumed]
        assert not {drawn for _, drawn in first} & {drawn for _, drawn in resumed}
        logger.reset()
        logger.set_logger_dir(str(tmp_path / "copy"), action="k")
        assert resumed == self.run(max_epoch=2)

    @pytest.mark.slow
    def test_without_a_checkpoint_nothing_changes(self, log_dir, tmp_path):
        """A training without a checkpoint uses its seeds unchanged."""
        first = self.run(max_epoch=1)
        start_over(tmp_path, "other")
        assert first == self.run(max_epoch=1)
        fix_rng_seed(5)
        advance_rng_seed(0)
        order = DataFromList(list(range(8)), shuffle=True)
        order.reset_state()
        assert [x for x, _ in first] == list(order)
