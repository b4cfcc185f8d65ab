"""An epoch whose callbacks were all called is not called again: the file `model-<step>.end`."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from fakes.trainers import CountingTrainer, Killed, run, run_resumed

from tensorpack_lite.callbacks import epoch_end
from tensorpack_lite.callbacks.epoch_end import _checksum
from tensorpack_lite.callbacks.graph import RunOp
from tensorpack_lite.callbacks.monitor.base import MonitorBase
from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.tfutils.checkpoint_background import BackgroundSave
from tensorpack_lite.tfutils.checkpoint_state import END_SUFFIX, read_end
from tensorpack_lite.tfutils.checkpoint_store import CheckpointStore
from tensorpack_lite.utils import logger, packed_state


class Validate(Callback):
    """Notes all of its calls in a list that training runs share, and reports a statistic."""

    def __init__(self, calls, kill_in=None):
        self._calls, self._kill_in = calls, kill_in

    def _note(self, moment):
        self._calls.append((moment, self.epoch_num))
        if (moment, self.epoch_num) == self._kill_in:
            raise Killed

    def _before_epoch(self):
        self._note("before_epoch")

    def _after_epoch(self):
        self._note("after_epoch")

    def _trigger_epoch(self):
        self._note("trigger_epoch")
        self.trainer.monitors.put_scalar("error", 1.0 / self.epoch_num)


class Change(Callback):
    """Adds 1 to a variable after each epoch."""

    def __init__(self, name="rate"):
        self._name = name

    def _setup_graph(self):
        self.variable = next(one for one in tf.global_variables() if one.op.name == self._name)
        ones = tf.ones(self.variable.shape, self.variable.dtype.base_dtype)
        self._add = self.variable.assign_add(ones, read_value=False)

    def _trigger_epoch(self):
        tf.get_default_session().run(self._add)

    def value(self):
        return tf.get_default_session().run(self.variable)


class Note(Callback):
    """Notes the value of a `Change` after each step."""

    def __init__(self, change, seen):
        self._change, self._seen = change, seen

    def _trigger_step(self):
        self._seen.append((self.global_step, float(np.mean(self._change.value()))))


def train(callbacks, epochs=2, steps=3, monitors=(), shape=(), dtype=tf.float32):
    with tf.Graph().as_default():
        for name in ("rate", "other"):
            tf.get_variable(name, shape, dtype, tf.ones_initializer(), use_resource=True, trainable=False)
        return run_resumed(CountingTrainer(), callbacks, [JSONWriter(), *monitors], steps, epochs)


def files(suffix=END_SUFFIX):
    return sorted(name for name in os.listdir(logger.get_logger_dir()) if name.endswith(suffix))


def epochs_of(calls, moment="trigger_epoch"):
    return [epoch for one, epoch in calls if one == moment]


class TestAnEndedEpoch:
    @pytest.mark.slow
    @pytest.mark.parametrize("asynchronous", [False, True])
    def test_with_a_larger_max_epoch(self, log_dir, asynchronous):
        """A training that has ended continues with the next epoch: no callback is called for the last one again."""
        calls = []
        train([ModelSaver(asynchronous=asynchronous), Validate(calls)], epochs=2)
        train([ModelSaver(asynchronous=asynchronous), Validate(calls)], epochs=4)
        for moment in ("before_epoch", "after_epoch", "trigger_epoch"):
            assert [1, 2, 3, 4] == epochs_of(calls, moment)
        with open(os.path.join(log_dir, "stats.json")) as file:
            assert [(1, 3), (2, 6), (3, 9), (4, 12)] == [
                (row["epoch_num"], row["global_step"]) for row in json.load(file)
            ]

    @pytest.mark.slow
    def test_with_other_callbacks(self, log_dir, log_lines):
        """If the callbacks have changed since, nothing is skipped, because nothing is due."""
        calls = []
        train([ModelSaver(), Validate(calls)], epochs=2)
        train([Change(), ModelSaver(), Validate(calls)], epochs=3)
        assert [1, 2, 3] == epochs_of(calls)
        assert not any("are skipped" in line for line in log_lines)

    @pytest.mark.slow
    def test_monitors_are_not_called_again(self, log_dir):
        """Monitors are not called for the ended epoch either, also if the callbacks have changed."""

        class Epochs(MonitorBase):
            def _trigger_epoch(self):
                seen.append(self.epoch_num)

            def state_dict(self):
                return {}

        seen = []
        train([ModelSaver()], epochs=2, monitors=[Epochs()])
        train([ModelSaver(), Change()], epochs=3, monitors=[Epochs()])
        assert [1, 2, 3] == seen

    @pytest.mark.slow
    def test_another_steps_per_epoch(self, log_dir):
        """With other epochs, training continues after the same number of steps."""
        calls = []
        train([ModelSaver(), Validate(calls)], epochs=2)
        trainer = train([ModelSaver(), Validate(calls)], epochs=3, steps=4)
        assert 12 == trainer.global_step
        assert [1, 2, 2, 3] == epochs_of(calls)

    @pytest.mark.slow
    def test_killed_in_the_next_epoch(self, log_dir):
        """A training that is killed in a later epoch begins with the epoch after the checkpoint."""
        calls = []
        train([ModelSaver(), Validate(calls, kill_in=("after_epoch", 2))])
        train([ModelSaver(), Validate(calls)])
        assert [1, 2] == epochs_of(calls)
        assert [1, 2, 2] == epochs_of(calls, "before_epoch")


class TestVariables:
    SHAPES = {"number": ((), tf.float32), "matrix": ((30, 7), tf.float32), "integer": ((2,), tf.int64)}

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", SHAPES)
    def test_changed_behind_the_saver(self, log_dir, tmp_path, kind):
        """A variable that a callback behind the saver changes continues with the value of the end of the epoch."""
        results = []
        for parts in ([4], [1, 3, 4]):
            logger.set_logger_dir(str(tmp_path / f"{len(parts)} parts"))
            seen = []
            for epochs in parts:
                change = Change()
                train([ModelSaver(), change, Note(change, seen)], epochs, 3, (), *self.SHAPES[kind])
            results.append(
                (
                    seen,
                    tf.train.load_variable(tf.train.latest_checkpoint(logger.get_logger_dir()), "rate").tolist(),
                )
            )
        assert 12 == len(results[0][0])
        assert results[0] == results[1]

    def test_only_changed_ones_are_written(self, log_dir):
        """The file has the variables that callbacks behind the saver have changed, and no others."""
        train([Change("rate"), ModelSaver(), Change("other")])
        end = read_end(tf.train.latest_checkpoint(log_dir))
        assert {"other": 3.0} == end.variables

    @pytest.mark.slow
    @pytest.mark.parametrize("case", [((5, 1024, 1024), tf.float32), ((2,), tf.bfloat16)], ids=["large", "bfloat16"])
    def test_that_do_not_fit(self, log_dir, log_lines, case):
        """If the changed variables do not fit into the file, the epoch is called again, as the log says."""
        calls = []
        train([ModelSaver(), Change(), Validate(calls)], 2, 3, (), *case)
        assert [] == files()
        assert any("have changed rate after model-6 was saved" in line for line in log_lines)
        train([ModelSaver(), Change(), Validate(calls)], 2, 3, (), *case)
        assert [1, 2, 2] == epochs_of(calls)

    def test_without_elements(self, log_dir):
        """Variables without elements get no checksum, which would be random for strings."""
        with tf.Graph().as_default():
            tf.get_variable("empty", [0], tf.string, tf.zeros_initializer(), use_resource=True)
            run(CountingTrainer(), [ModelSaver()])
            names = [op.name for op in tf.get_default_graph().get_operations() if op.type == "Fingerprint"]
        assert len(tf.train.list_variables(tf.train.latest_checkpoint(log_dir))) == len(names) + 1

    def test_on_other_devices(self, log_dir):
        """The checksum, which has only a CPU kernel, is computed on the CPU of the variable's task."""
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:1/device:GPU:2"):
                variable = tf.get_variable("v", initializer=1.0, use_resource=True)
            checksum = _checksum(variable)
            assert "/job:ps/task:1/device:CPU:0" == checksum.device

    def test_other_saved_objects(self, log_dir):
        """If a checkpoint has objects that are not variables, such a file is not written."""
        with tf.Graph().as_default():
            tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -1, -2)
            keys = [tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.SAVEABLE_OBJECTS]
            run(CountingTrainer(), [ModelSaver(var_collections=keys)])
        assert ([], ["model-2.index", "model-4.index"]) == (files(), files(".index"))


class Remember(Callback):
    """Has a list in its state, which grows before each epoch and at each trigger."""

    def __init__(self):
        self.items = []

    def _before_epoch(self):
        self.items.append("before")

    def _trigger_epoch(self):
        self.items.append("after")

    def state_dict(self):
        return {"items": self.items}


class TestState:
    def test_is_that_of_the_end(self, log_dir, monkeypatch):
        """With an asynchronous saver, the file has the state of the epoch's end, although callbacks change it before it is written."""
        writes = []
        monkeypatch.setattr(BackgroundSave, "follow", lambda self, write: writes.append(write))
        saver = ModelSaver(asynchronous=True)
        train([saver, Remember()], epochs=2)
        for write in writes:
            write()
        states = read_end(f"{log_dir}/model-3").state["callbacks"]
        assert ["before", "after"] == states["Remember"]["items"]

    def test_that_does_not_fit(self, log_dir, log_lines, monkeypatch):
        """If the state and the changed variables together are too large for a file, training continues without the file."""
        monkeypatch.setattr(packed_state, "MAX_STATE_BYTES", 300_000)
        trainer = train([ModelSaver(), Change()], 2, 3, (), (80_000,))
        assert 6 == trainer.global_step
        assert [] == files()
        assert any("the end of the epoch of model-6 is too large" in line for line in log_lines)

    def test_of_an_unknown_shape(self, log_dir, monkeypatch):
        """The size of a variable without a static shape counts, too."""
        monkeypatch.setattr(epoch_end, "_MAX_BYTES", 1000)
        with tf.Graph().as_default():
            one = tf.Variable(
                tf.ones([500]),
                validate_shape=False,
                shape=tf.TensorShape(None),
                name="rate",
                use_resource=True,
            )
            change = RunOp(lambda: one.assign_add(tf.ones([500])).op)
            run(CountingTrainer(), [ModelSaver(), change])
        assert [] == files()

    @pytest.mark.slow
    def test_another_saver(self, log_dir, tmp_path):
        """Only the saver from whose directory training resumes ends the interrupted epoch: others saved other values."""
        other = str(tmp_path / "other")
        for kill_in in (("trigger_epoch", 2), None):
            train([ModelSaver(checkpoint_dir=other), Change(), ModelSaver(), Validate([], kill_in)])
        assert ["model-3.end", "model-6.end"] == files()
        assert not os.path.exists(os.path.join(other, "model-6.end"))


class TestFiles:
    def test_saved_more_rarely(self, log_dir):
        """The end of an epoch without a checkpoint is not recorded: its epochs are done again from the checkpoint on."""
        calls = []
        saver = lambda: PeriodicTrigger(ModelSaver(), every_k_epochs=2)  # noqa: E731
        train([saver(), Validate(calls)], epochs=3)
        assert ["model-6.end"] == files()
        train([saver(), Validate(calls)], epochs=4)
        assert [1, 2, 3, 3, 4] == epochs_of(calls)

    def test_saved_inside_epochs(self, log_dir):
        """A checkpoint that is saved inside an epoch gets no such file, one of the last step gets it."""
        train([PeriodicTrigger(ModelSaver(), every_k_steps=2)])
        assert ["model-6.end"] == files()
        assert ["model-2.index", "model-4.index", "model-6.index"] == files(".index")

    def test_removed_with_its_checkpoint(self, log_dir):
        """When an old checkpoint is removed, its file is, too."""
        train([ModelSaver(max_to_keep=2)], epochs=4)
        assert ["model-12.end", "model-9.end"] == files()

    def test_without_its_checkpoint(self, log_dir):
        """The next start removes such a file without a checkpoint, and one that was not written to the end."""
        train([ModelSaver()])
        for name in ("model-3.end", ".model-3.end.tmp"):
            shutil.copy(os.path.join(log_dir, "model-6.end"), os.path.join(log_dir, name))
        os.remove(os.path.join(log_dir, "model-3.index"))
        train([ModelSaver()])
        assert ["model-6.end"] == files()
        assert [] == files(".end.tmp")

    def test_of_another_checkpoint(self, log_dir):
        """A file that belongs to an earlier checkpoint of the same name is not used."""
        calls = []
        train([ModelSaver(), Validate(calls)])
        kept = os.path.join(log_dir, "kept")
        shutil.copy(os.path.join(log_dir, "model-6.end"), kept)
        for name in files(".index") + files(".state"):
            if name.startswith("model-6"):
                os.remove(os.path.join(log_dir, name))
        train([ModelSaver(), Validate(calls, kill_in=("trigger_epoch", 2))])  # from model-3
        shutil.move(kept, os.path.join(log_dir, "model-6.end"))
        train([ModelSaver(), Validate(calls)])
        assert [1, 2, 2, 2] == epochs_of(calls)

    @pytest.mark.slow
    def test_damaged(self, log_dir, log_lines):
        """A damaged file is ignored with a warning: the checkpoint itself is complete."""
        calls = []
        train([ModelSaver(), Validate(calls)])
        with open(os.path.join(log_dir, "model-6.end"), "r+b") as file:
            file.truncate(40)
        train([ModelSaver(), Validate(calls)], epochs=3)
        assert [1, 2, 2, 3] == epochs_of(calls)
        assert any("model-6.end is ignored" in line for line in log_lines)

    def test_without_it(self, log_dir):
        """A checkpoint of version 0.2.0.dev0, which has no such file, resumes as it did: callbacks behind the saver are called."""
        calls = []
        train([ModelSaver(), Validate(calls)])
        for name in files():
            os.remove(os.path.join(log_dir, name))
        train([ModelSaver(), Validate(calls)], epochs=3)
        assert [1, 2, 2, 3] == epochs_of(calls)
        assert [1, 2, 3] == epochs_of(calls, "trigger_epoch")[:1] + epochs_of(calls)[2:]

    @pytest.mark.slow
    def test_killed_while_it_is_written(self, log_dir, monkeypatch):
        """A training that is killed while the file is written continues the epoch; the next start removes what is left."""
        calls = []

        def write(self, file, content):
            if file != "model-6.end":
                return original(self, file, content)
            with open(self.path(f".{file}.tmp"), "wb") as stream:
                stream.write(content[:100])
            raise Killed

        original = CheckpointStore.write_bytes
        with monkeypatch.context() as patch:
            patch.setattr(CheckpointStore, "write_bytes", write)
            train([ModelSaver(), Validate(calls)])
        assert [".model-6.end.tmp"] == files(".end.tmp")
        train([ModelSaver(), Validate(calls)])
        assert [1, 2, 2] == epochs_of(calls)
        assert ["model-3.end", "model-6.end"] == files()
        assert [] == files(".end.tmp")
        train([ModelSaver(), Validate(calls)])
        assert [1, 2, 2] == epochs_of(calls)

    def test_the_best_checkpoint(self, log_dir):
        """MinSaver keeps its best value over the end of an epoch."""
        train([Validate([]), ModelSaver(), MinSaver("error")])
        trainer = train([Validate([]), ModelSaver(), MinSaver("error")], epochs=3)
        (saver,) = trainer.find_callbacks(MinSaver)
        assert (9, 1 / 3) == saver.best
