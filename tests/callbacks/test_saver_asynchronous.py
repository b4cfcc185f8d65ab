"""ModelSaver(asynchronous=True): the files, the threads, and errors while training continues."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from fakes.checkpoints import disk_full_after, files_of, names, train, value_in
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.saver import MinSaver, ModelSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.callback_factory import CallbackFactory
from tensorpack_lite.tfutils.checkpoint_state import read_state
from tensorpack_lite.tfutils.varmanip import save_checkpoint_vars
from tensorpack_lite.train.base import Trainer

_SECONDS = 60  # limit for events that come at once unless a test fails


class StepTrainer(Trainer):
    """Each step assigns its number to variables of all kinds, which are larger than a page of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.variables = [
            tf.get_variable("z/resource", [3000], initializer=tf.zeros_initializer(), use_resource=True),
            tf.get_variable("a/ref", [3000], initializer=tf.zeros_initializer(), use_resource=False),
            tf.get_variable("scalar", [], tf.int32, tf.zeros_initializer(), use_resource=True),
            tf.get_variable("half", [5], tf.bfloat16, tf.zeros_initializer(), use_resource=True),
            *tf.get_variable("parts", [7, 2], initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(3)),
        ]  # fmt: skip
        step = tf.get_variable("step", [], initializer=tf.zeros_initializer(), use_resource=True)
        text = tf.get_variable("text", [2], tf.string, tf.constant_initializer(["a", "bc"]), use_resource=True)
        with tf.control_dependencies([text.read_value()]):
            now = step.assign_add(1.0)
        ones = [tf.ones(v.shape, v.dtype.base_dtype) for v in self.variables]
        updates = [v.assign(tf.cast(now, one.dtype) * one, read_value=False) for v, one in zip(self.variables, ones)]
        self.train_op = tf.group(*updates)


class Held(ModelSaver):
    """An asynchronous ModelSaver whose thread waits in front of each file until it is let go."""

    def __init__(self, directory, **options) -> None:
        super().__init__(checkpoint_dir=str(directory), asynchronous=True, **options)
        self.waits, self.may_write = threading.Event(), threading.Event()

    def _before_train(self) -> None:
        super()._before_train()
        write = self._writer.write

        def wait_and_write(prefix, arrays):
            self.waits.set()
            assert self.may_write.wait(_SECONDS)
            write(prefix, arrays)

        self._writer.write = wait_and_write


class AtStep(Callback):
    """Calls functions after given steps."""

    def __init__(self, functions) -> None:
        self._functions = functions

    def _trigger_step(self) -> None:
        self._functions.get(self.global_step, lambda: None)()


def arrays_in(directory, name):
    """Return all variables of a checkpoint."""
    reader = tf.train.NewCheckpointReader(str(directory / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


class TestTheFiles:
    @pytest.mark.slow
    def test_the_same_bytes(self, tmp_path):
        """All files of all checkpoints are the same bytes as those of a synchronous save."""
        for folder, asynchronous in (("one", False), ("other", True)):
            saver = ModelSaver(
                keep_checkpoint_every_n_hours=math.inf,  # the state has the time that is left
                checkpoint_dir=str(tmp_path / folder),
                asynchronous=asynchronous,
            )
            with tf.Graph().as_default():
                run(StepTrainer(), [saver], epochs=2)
        files = [*files_of("model-2"), *files_of("model-4")]

        assert ["checkpoint", *files] == names(tmp_path / "other")
        for file in files:
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes(), file

    @pytest.mark.slow
    def test_no_variable_is_torn(self, tmp_path):
        """A checkpoint has all variables as they were after its step, however many steps follow before it is written."""
        saver = Held(tmp_path)
        with tf.Graph().as_default():
            run(
                StepTrainer(),
                [PeriodicTrigger(saver, every_k_steps=4), AtStep({7: saver.may_write.set})],
                steps=8,
                epochs=1,
            )

        for step in (4, 8):
            found = arrays_in(tmp_path, f"model-{step}")
            assert step == found.pop("global_step")
            assert [b"a", b"bc"] == found.pop("text").tolist()
            assert ["a/ref", "half", "parts", "scalar", "step", "z/resource"] == sorted(found)
            for name, array in found.items():
                assert {float(step)} == set(np.float64(array).ravel().tolist()), name

    def test_absent_until_it_is_complete(self, tmp_path):
        """While a checkpoint is written, neither its files nor its name in `checkpoint` can be seen."""
        seen = []
        saver = Held(tmp_path)
        look = AtStep({3: lambda: saver.waits.wait(_SECONDS) and seen.extend(names(tmp_path)), 4: saver.may_write.set})
        train([saver, look], epochs=2)

        assert [".saving"] == seen
        assert ["checkpoint", *files_of("model-2"), *files_of("model-4")] == names(tmp_path)

    def test_the_state_is_that_of_the_trigger(self, tmp_path):
        """The state file has what callbacks returned when the save was triggered, even if they change it afterwards."""

        class Counts(Callback):
            def __init__(self) -> None:
                self.counts = np.zeros(1)

            def _trigger_step(self) -> None:
                self.counts += 1

            def state_dict(self):
                return {"counts": self.counts}

        saver = Held(tmp_path)
        train([Counts(), saver, AtStep({4: saver.may_write.set})], epochs=2)
        states = [read_state(str(tmp_path / f"model-{step}.state")) for step in (2, 4)]
        assert [[2.0], [4.0]] == [state["callbacks"]["Counts"]["counts"].tolist() for state in states]
        assert [1, 2] == [state["place"]["epoch_num"] for state in states]


class TestBusy:
    @pytest.mark.slow
    def test_wait(self, tmp_path):
        """The next save waits for the one in progress, so that every trigger gives a checkpoint."""
        saver = Held(tmp_path)
        timer = threading.Timer(0.1, saver.may_write.set)
        train([saver, AtStep({3: timer.start})], epochs=3)
        timer.join()

        assert ["checkpoint", *files_of("model-2"), *files_of("model-4"), *files_of("model-6")] == names(tmp_path)

    def test_skip(self, tmp_path, log_lines):
        """With busy="skip", a save is skipped while another one is in progress, and the log reports it."""
        saver = Held(tmp_path, busy="skip")

        def finish():
            saver.may_write.set()
            assert saver.wait(_SECONDS)

        train([saver, AtStep({5: finish})], epochs=3)

        assert ["checkpoint", *files_of("model-2"), *files_of("model-6")] == names(tmp_path)
        sentence = "ModelSaver: model-4 is skipped, because the previous one is still being written."
        assert 1 == log_lines.count(sentence)

    def test_an_unknown_word(self):
        """Other values of `busy` raise ValueError."""
        with pytest.raises(ValueError, match="ModelSaver: busy"):
            ModelSaver(busy="queue")

    def test_waiting_with_a_limit(self, tmp_path):
        """`wait` returns False after its timeout, and True when the checkpoint is listed."""
        results = []
        saver = Held(tmp_path)

        def look():
            results.append(saver.wait(0.01))
            saver.may_write.set()
            results.append(saver.wait(_SECONDS))
            results.append(tf.train.latest_checkpoint(str(tmp_path)))

        train([saver, AtStep({3: look})], epochs=2)
        assert [False, True, str(tmp_path / "model-2")] == results

    def test_two_savers_in_one_directory(self, tmp_path):
        """A second ModelSaver with the same directory waits for the thread of the first one."""
        saver = Held(tmp_path)
        timer = threading.Timer(0.1, saver.may_write.set)
        every_step = PeriodicTrigger(ModelSaver(checkpoint_dir=str(tmp_path)), every_k_steps=3)
        train([saver, AtStep({2: timer.start}), every_step], epochs=2)
        timer.join()

        assert {"x": 3.0, "global_step": 3} == arrays_in(tmp_path, "model-3")
        assert [2.0, 4.0] == [value_in(tmp_path, f"model-{step}") for step in (2, 4)]

    def test_save_checkpoint_vars_in_a_callback(self, tmp_path):
        """`save_checkpoint_vars` in the same directory waits for the thread."""
        saver = Held(tmp_path)
        timer = threading.Timer(0.1, saver.may_write.set)
        save = CallbackFactory(trigger=lambda self: save_checkpoint_vars({"w": 1.0}, str(tmp_path / "mine")))
        train([saver, CallbackFactory(trigger=lambda self: timer.start()), save], epochs=1)
        timer.join()

        assert (2.0, 1.0) == (value_in(tmp_path, "model-2"), value_in(tmp_path, "mine", "w"))


class TestWithMinSaver:
    @pytest.mark.slow
    def test_it_waits(self, tmp_path, log_lines):
        """A MinSaver behind the ModelSaver waits until the checkpoint is complete, and copies it with its state."""
        saver = Held(tmp_path)
        timer = threading.Timer(0.1, saver.may_write.set)
        start = CallbackFactory(before_train=lambda self: timer.start())
        best = MinSaver("error", checkpoint_dir=str(tmp_path))
        train([PutValues("error", [3, 1, 2]), start, saver, best], epochs=3)
        timer.join()

        assert (4, 1.0) == best.best
        assert 4.0 == value_in(tmp_path, "min-error")
        assert (tmp_path / "model-4.state").read_bytes() == (tmp_path / "min-error.state").read_bytes()
        saved = [line.split(" saved to ")[0] for line in log_lines if " saved to " in line]
        expected = [
            "Model",
            "Best error 3",
            "Model",
            "Best error 1",
        ]
        assert [*expected, "Model"] == saved

    def test_after_a_skipped_save(self, tmp_path, log_lines):
        """If the save was skipped, there is nothing to copy, and the log reports it."""
        saver = Held(tmp_path, busy="skip")
        best = MinSaver("error", checkpoint_dir=str(tmp_path))
        release = CallbackFactory(trigger=lambda self: self.global_step == 4 and saver.may_write.set())
        train([PutValues("error", [None, 1]), saver, release, best], epochs=2)
        assert best.best is None
        assert any("is best at step 4, but the latest checkpoint is model-2" in line for line in log_lines)


class TestErrors:
    def failing(self, tmp_path, nth):
        """A ModelSaver whose nth file meets a full disk."""

        class Failing(ModelSaver):
            def _before_train(self) -> None:
                super()._before_train()
                write, numbers = self._writer.write, iter(range(1, 100))

                def write_or_fail(prefix, arrays):
                    with disk_full_after(20 if next(numbers) == nth else 10**9):
                        write(prefix, arrays)

                self._writer.write = write_or_fail

        return Failing(checkpoint_dir=str(tmp_path), asynchronous=True)

    def test_at_the_next_trigger(self, tmp_path):
        """A full disk ends training at the next trigger with an OSError; the previous checkpoint is the latest."""
        with tf.Graph().as_default():
            trainer = CountingTrainer()
            with pytest.raises(OSError, match="ModelSaver: cannot write '.*model-4': .*; File too large"):
                run(trainer, [self.failing(tmp_path, 2)], epochs=4)

        assert 6 == trainer.global_step
        assert ["checkpoint", *files_of("model-2")] == names(tmp_path)
        assert str(tmp_path / "model-2") == tf.train.latest_checkpoint(str(tmp_path))

    def test_at_the_end(self, tmp_path):
        """The error of the last save is raised in after_train, so that a training never succeeds without its checkpoint."""
        with pytest.raises(OSError, match="ModelSaver: cannot write '.*model-4': .*; File too large"):
            train([self.failing(tmp_path, 2)], epochs=2)
        assert 2.0 == value_in(tmp_path, "model-2")

    def test_in_min_saver(self, tmp_path):
        """A MinSaver that waits for the checkpoint raises the error, and keeps its copy."""
        best = MinSaver("error", checkpoint_dir=str(tmp_path))
        with pytest.raises(OSError, match="ModelSaver: cannot write '.*model-4'"):
            train([PutValues("error", [2, 1]), self.failing(tmp_path, 2), best], epochs=2)
        assert 2.0 == value_in(tmp_path, "min-error")

    def test_a_failed_training_saves_what_it_began(self, tmp_path):
        """If training fails while a checkpoint is written, the checkpoint is completed, and the error is that of training."""
        saver = Held(tmp_path)

        def fail():
            saver.may_write.set()
            raise RuntimeError("mine")

        with pytest.raises(RuntimeError, match="mine"):
            train([saver, AtStep({3: fail})], epochs=2)
        assert str(tmp_path / "model-2") == tf.train.latest_checkpoint(str(tmp_path))

    def test_what_was_written_is_read_back(self, tmp_path):
        """A file that the disk has damaged raises OSError and is not moved into place."""

        class Damaging(ModelSaver):
            def _before_train(self) -> None:
                super()._before_train()
                write = self._writer.write

                def write_and_damage(prefix, arrays):
                    write(prefix, arrays)
                    with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
                        file.write(b"\xff\xff\xff\xff")

                self._writer.write = write_and_damage

        with pytest.raises(OSError, match="ModelSaver: cannot write '.*model-2'"):
            train([Damaging(checkpoint_dir=str(tmp_path), asynchronous=True)], epochs=1)
        assert [] == names(tmp_path)


class TestMemory:
    def test_not_enough(self, tmp_path, monkeypatch, log_lines):
        """If the copy needs more than half of the available memory, saves are synchronous, after one warning."""
        monkeypatch.setattr("tensorpack_lite.callbacks.saver.available_memory", lambda: 23)
        saver = Held(tmp_path)  # its thread would wait without limit
        train([saver], epochs=2)

        assert ["checkpoint", *files_of("model-2"), *files_of("model-4")] == names(tmp_path)
        assert 1 == len([line for line in log_lines if "ModelSaver: training waits until checkpoints are" in line])

    def test_the_size_is_said(self, tmp_path, log_lines):
        """The log says once how much memory the copy needs."""
        train([ModelSaver(checkpoint_dir=str(tmp_path), asynchronous=True)], epochs=2)

        sentence = "ModelSaver: saving while training continues needs 0 MB."
        assert 1 == log_lines.count(sentence)
