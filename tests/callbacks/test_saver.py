"""ModelSaver: the files of checkpoints, their removal, and failing disks."""

from __future__ import annotations

import os
import re
import shutil
import time

import pytest
from fakes.checkpoints import disk_full_after, files_of, names, train, value_in
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.saver import ModelSaver
from tensorpack_lite.compat import tfv1 as tf
from tensorpack_lite.loop.callback import Callback


class TestModelSaver:
    def test_the_values(self, tmp_path):
        """A checkpoint holds the variables as they were after its step."""
        train([ModelSaver(checkpoint_dir=str(tmp_path))])

        assert (2.0, 2) == (value_in(tmp_path, "model-2"), value_in(tmp_path, "model-2", "global_step"))
        assert (4.0, 4) == (value_in(tmp_path, "model-4"), value_in(tmp_path, "model-4", "global_step"))

    @pytest.mark.parametrize(("clock", "kept"), [("time", []), ("monotonic", ["model-1"])])
    def test_a_jump_of_the_clock(self, tmp_path, monkeypatch, clock, kept):
        """If the clock is set forward by a day, no checkpoint is kept forever; after a pause of a day, one is kept, not 48."""
        saver = ModelSaver(max_to_keep=1, checkpoint_dir=str(tmp_path))
        read = getattr(time, clock)
        monkeypatch.setattr(time, clock, lambda: read() + 86400)
        train([saver], epochs=4, steps=1)

        assert [*kept, "model-4"] == [name[:-6] for name in names(tmp_path) if name.endswith(".index")]

    def test_the_list_is_relative(self, tmp_path):
        """`checkpoint` names files without their directory, so a moved directory still works."""
        old, new = tmp_path / "old", tmp_path / "new"
        train([ModelSaver(checkpoint_dir=str(old))])
        shutil.move(str(old), str(new))

        listed = re.findall(r'model_checkpoint_paths?: "(.*)"', (new / "checkpoint").read_text())
        assert ["model-4", "model-2", "model-4"] == listed
        assert str(new / "model-4") == tf.train.latest_checkpoint(str(new))

    def test_leftovers_of_others(self, tmp_path):
        """
        Before training, only temporary files of a killed ModelSaver are removed; other files and complete
        checkpoints stay.
        """
        ours = [".checkpoint.tmp", f"graph-0131-235959.meta.tmp{'0' * 32}", "model-7.data-00000-of-00001"]
        others = [
            ".notes.tmp",
            "graph-old.meta.tmp",
            "best.data-00000-of-00001",
            "model-7b.data-00000-of-00001",
        ]
        complete = files_of("model-6")
        for name in [*ours, *others, *complete]:
            (tmp_path / name).write_text("")
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=0)

        assert sorted([*others, *complete]) == names(tmp_path)

    def test_the_meta_graph(self, tmp_path):
        """One meta graph with all collections is written before training."""
        tf_key = "MY_COLLECTION"
        with tf.Graph().as_default():
            trainer = CountingTrainer()
            tf.add_to_collection(tf_key, tf.constant(1, name="mine"))
            run(trainer, [ModelSaver(checkpoint_dir=str(tmp_path))], steps=1, epochs=1)
        found = [f for f in os.listdir(tmp_path) if re.fullmatch(r"graph-\d{4}-\d{6}\.meta", f)]

        assert 1 == len(found)
        with tf.Graph().as_default():
            tf.train.import_meta_graph(str(tmp_path / found[0]))
            assert ["mine:0"] == [tensor.name for tensor in tf.get_collection(tf_key)]

    def test_the_meta_graph_restores(self, tmp_path):
        """The Saver in the meta graph loads the checkpoint."""
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1)
        meta = next(f for f in os.listdir(tmp_path) if f.endswith(".meta"))
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.import_meta_graph(str(tmp_path / meta)).restore(session, str(tmp_path / "model-2"))
            assert 2.0 == session.run(next(v for v in tf.global_variables() if v.op.name == "x"))

    def test_its_saver_is_in_the_collection(self, tmp_path):
        """The saver is in the collection SAVERS, as scripts that export the graph expect."""
        saver = ModelSaver(checkpoint_dir=str(tmp_path))
        with tf.Graph().as_default():
            run(CountingTrainer(), [saver], steps=1, epochs=1)
            assert [saver.saver] == tf.get_collection(tf.GraphKeys.SAVERS)

    def test_variables_of_later_callbacks_are_not_saved(self, tmp_path):
        """Only variables that exist when ModelSaver sets up are saved."""

        class Make(Callback):
            def __init__(self, name) -> None:
                self._name = name

            def _setup_graph(self) -> None:
                tf.get_variable(self._name, initializer=0.0)

        train([Make("before"), ModelSaver(checkpoint_dir=str(tmp_path)), Make("after")], epochs=1)

        reader = tf.train.NewCheckpointReader(str(tmp_path / "model-2"))
        assert {"before", "x", "global_step"} == set(reader.get_variable_to_shape_map())

    def test_other_collections(self, tmp_path):
        """var_collections selects the saved variables; a variable in two collections is saved once."""
        keys = [tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.TRAINABLE_VARIABLES]
        train([ModelSaver(checkpoint_dir=str(tmp_path), var_collections=keys)], epochs=1)

        reader = tf.train.NewCheckpointReader(str(tmp_path / "model-2"))
        assert {"x"} == set(reader.get_variable_to_shape_map())

    def test_max_to_keep(self, tmp_path):
        """The oldest checkpoints are removed from the list and the disk; files with a common prefix stay."""
        train([ModelSaver(max_to_keep=2, checkpoint_dir=str(tmp_path))], epochs=11, steps=1)

        assert ["checkpoint", *files_of("model-10"), *files_of("model-11")] == names(tmp_path)
        state = tf.train.get_checkpoint_state(str(tmp_path))
        expected = [str(tmp_path / "model-10"), str(tmp_path / "model-11")]
        assert expected == list(state.all_model_checkpoint_paths)

    @pytest.mark.parametrize("max_to_keep", [None, 0])
    def test_keep_all(self, tmp_path, max_to_keep):
        """max_to_keep of None or 0 removes nothing."""
        train([ModelSaver(max_to_keep=max_to_keep, checkpoint_dir=str(tmp_path))], epochs=12, steps=1)

        assert 1 + 3 * 12 == len(names(tmp_path))

    def test_one_in_so_many_hours_stays(self, tmp_path):
        """With a period of 0 hours, every checkpoint that leaves the list stays on the disk."""
        saver = ModelSaver(1, 0, str(tmp_path))
        train([saver], epochs=3, steps=1)

        assert 1 + 3 * 3 == len(names(tmp_path))
        assert 1 == len(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths)

    def test_a_training_that_resumes_manages_the_old_ones(self, tmp_path):
        """In a resumed training, earlier checkpoints stay in the list and count for max_to_keep."""
        train([ModelSaver(max_to_keep=3, checkpoint_dir=str(tmp_path))], epochs=3)
        train([ModelSaver(max_to_keep=3, checkpoint_dir=str(tmp_path))], epochs=4, starting_epoch=4, step=6)

        assert ["checkpoint", *files_of("model-4"), *files_of("model-6"), *files_of("model-8")] == names(tmp_path)

    def test_files_that_nobody_listed_are_left_alone(self, tmp_path):
        """Checkpoints that are not in the list are never removed."""
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1)
        os.unlink(str(tmp_path / "checkpoint"))
        train([ModelSaver(max_to_keep=1, checkpoint_dir=str(tmp_path))], epochs=4, starting_epoch=3, step=4)

        assert ["checkpoint", *files_of("model-2"), *files_of("model-8")] == names(tmp_path)

    def test_the_same_step_again(self, tmp_path):
        """A second checkpoint of the same step replaces the first and is listed once."""
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1)
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1)

        assert ["checkpoint", *files_of("model-2")] == names(tmp_path)
        assert 1 == len(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths)

    def test_the_loggers_directory(self, log_dir):
        """Without checkpoint_dir, checkpoints go to the logger's directory."""
        train([ModelSaver()], epochs=1)

        assert os.path.join(log_dir, "model-2") == tf.train.latest_checkpoint(log_dir)

    def test_a_new_directory_is_made(self, tmp_path):
        """A missing directory is created, including its parents."""
        train([ModelSaver(checkpoint_dir=str(tmp_path / "a" / "b"))], epochs=1)

        assert tf.train.latest_checkpoint(str(tmp_path / "a" / "b"))

    def test_without_a_directory(self):
        """Without a directory, the constructor succeeds, and setup_graph raises RuntimeError."""
        saver = ModelSaver()
        with pytest.raises(RuntimeError, match="ModelSaver: no directory to save to.*set_logger_dir"):
            train([saver])


class TestAFailingDisk:
    def fail_in_epoch(self, epoch, what):
        """A callback that changes the world right before a save."""

        class Change(Callback):
            def _after_epoch(self) -> None:
                if self.epoch_num == epoch:
                    what()

        return Change()

    def test_a_full_disk(self, tmp_path):
        """
        A full disk raises OSError; the previous checkpoint stays intact and the latest, and no partial file is
        left.
        """
        limits = disk_full_after(20)
        saver = ModelSaver(checkpoint_dir=str(tmp_path))
        try:
            with pytest.raises(
                OSError, match="ModelSaver: cannot write '.*model-4': .*; File too large. Earlier files"
            ):
                train([self.fail_in_epoch(2, limits.__enter__), saver])
        finally:
            limits.__exit__(None, None, None)

        assert ["checkpoint", *files_of("model-2")] == names(tmp_path)
        assert str(tmp_path / "model-2") == tf.train.latest_checkpoint(str(tmp_path))
        assert 2.0 == value_in(tmp_path, "model-2")

    def test_a_full_disk_when_the_list_is_written(self, tmp_path):
        """If the list cannot be written, the new checkpoint is complete, and the old list and checkpoints stay."""
        saver = ModelSaver(max_to_keep=1, checkpoint_dir=str(tmp_path))

        def fail(*args):
            with disk_full_after(10):
                return write_text(*args)

        def change():
            saver._store.write_text = fail

        write_text = None

        class Keep(Callback):
            def _before_train(self) -> None:
                nonlocal write_text
                write_text = saver._store.write_text

        with pytest.raises(OSError, match="ModelSaver: cannot write '.*/checkpoint'"):
            train([Keep(), self.fail_in_epoch(2, change), saver])
        assert str(tmp_path / "model-2") == tf.train.latest_checkpoint(str(tmp_path))
        assert 2.0 == value_in(tmp_path, "model-2")
        assert 4.0 == value_in(tmp_path, "model-4")

    def test_a_missing_directory(self, tmp_path):
        """A directory that disappears during training raises OSError and is not recreated."""
        directory = tmp_path / "gone"
        change = self.fail_in_epoch(2, lambda: shutil.rmtree(str(directory)))
        with pytest.raises(OSError, match="the checkpoint directory '.*gone' does not exist"):
            train([change, ModelSaver(checkpoint_dir=str(directory))])
        assert not directory.exists()

    def test_the_meta_graph_cannot_be_written(self, tmp_path):
        """A meta graph that cannot be written raises OSError."""

        class Remove(Callback):
            def _before_train(self) -> None:
                shutil.rmtree(str(tmp_path / "gone"))
                (tmp_path / "gone").write_text("")

        with pytest.raises(OSError, match=r"ModelSaver: cannot write '.*gone/graph-.*\.meta'"):
            train([Remove(), ModelSaver(checkpoint_dir=str(tmp_path / "gone"))])

    def test_a_file_in_its_place(self, tmp_path):
        """A directory that cannot be created raises OSError in setup_graph."""
        (tmp_path / "file").write_text("")
        with pytest.raises(OSError, match="ModelSaver: cannot create the directory '.*file/below'"):
            train([ModelSaver(checkpoint_dir=str(tmp_path / "file" / "below"))])

    def test_what_was_written_is_read_back(self, tmp_path):
        """A checkpoint that cannot be read back raises OSError and is not moved into place."""
        saver = ModelSaver(checkpoint_dir=str(tmp_path))
        real_write = saver._write

        def damaging_write(prefix):
            real_write(prefix)
            path = f"{prefix}.data-00000-of-00001"
            with open(path, "r+b") as file:
                file.write(b"\xff\xff\xff\xff")

        saver._write = damaging_write
        with pytest.raises(OSError, match="ModelSaver: cannot write"):
            train([saver])
        assert [] == names(tmp_path)

    def test_an_uninitialized_variable_is_not_a_disk_error(self, tmp_path):
        """An error of the session, such as an uninitialized variable, keeps its type."""
        saver = ModelSaver(checkpoint_dir=str(tmp_path))

        def fail(prefix):
            raise tf.errors.FailedPreconditionError(None, None, "uninitialized value x")

        saver._write = fail
        with pytest.raises(tf.errors.FailedPreconditionError):
            train([saver])

    def test_leftovers_of_a_killed_process_go(self, tmp_path):
        """Temporary files of a process that was killed during a save are removed by the next training."""
        (tmp_path / ".saving").mkdir()
        (tmp_path / ".saving" / "model-2.index").write_text("half")
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1)

        assert not (tmp_path / ".saving").exists()
        assert 2.0 == value_in(tmp_path, "model-2")
