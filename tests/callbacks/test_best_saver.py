"""MinSaver and MaxSaver: the best checkpoint, restarts and full disks."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest
from fakes.checkpoints import disk_full_after, files_of, names, train, value_in
from fakes.recording import PutValues

from tensorpack_lite.callbacks.saver import MaxSaver, MinSaver, ModelSaver
from tensorpack_lite.callbacks.top_k import TopKSaver
from tensorpack_lite.callbacks.trigger import PeriodicTrigger
from tensorpack_lite.loop.callback import Callback

NAN = float("nan")


class TestMinAndMaxSaver:
    def saved(self, tmp_path, make, values, **arguments):
        """Train one epoch a value; give the step of the kept model."""
        directory = str(tmp_path)
        best = make(checkpoint_dir=directory)
        train(
            [PutValues("stat", values), ModelSaver(checkpoint_dir=directory), best],
            epochs=len(values),
            **arguments,
        )
        return best.best

    @pytest.mark.parametrize(
        ("make", "values", "name", "expected"),
        [
            (MinSaver, [3, 1, 2], "min-stat", (4, 1.0)),
            (MaxSaver, [3, 1, 2], "max-stat", (2, 3.0)),
            (partial(MinSaver, reverse=True), [3, 1, 2], "max-stat", (2, 3.0)),
            (MaxSaver, [3, 3], "max-stat", (2, 3.0)),  # equal is not better
            (MinSaver, [NAN, 3, NAN], "min-stat", (4, 3.0)),  # NaN is never the best, neither at first nor later
        ],
    )
    def test_the_best_is_kept(self, tmp_path, make, values, name, expected):
        """The files are those of the first checkpoint with the smallest or largest value."""
        assert expected == self.saved(tmp_path, partial(make, "stat"), values)
        assert expected[0] == value_in(tmp_path, name)

    def test_the_files(self, tmp_path):
        """The copy has the same suffixes as the checkpoint, plus a record."""
        self.saved(tmp_path, partial(MaxSaver, "stat"), [3])

        expected = sorted([*files_of("max-stat"), "max-stat.json"])
        assert expected == [n for n in names(tmp_path) if n.startswith("max")]
        record = json.loads((tmp_path / "max-stat.json").read_text())
        assert {"stat": "stat", "step": 2, "value": 3.0} == record

    def test_a_filename_is_no_path(self):
        """A filename with a directory raises ValueError."""
        with pytest.raises(
            ValueError,
            match=r"MaxSaver: filename is a path \(expected a name inside checkpoint_dir, got 'a/b'\)",
        ):
            MaxSaver("stat", filename="a/b")

    def test_a_statistic_with_a_slash(self, tmp_path):
        """A slash in the name of the statistic does not create a directory."""
        directory = str(tmp_path)
        callbacks = [
            PutValues("a/b", [1]),
            ModelSaver(checkpoint_dir=directory),
            MinSaver("a/b", checkpoint_dir=directory),
        ]
        train(callbacks, epochs=1)

        assert 2.0 == value_in(tmp_path, "min-a-b")

    @pytest.mark.slow
    def test_model_10_is_not_model_100(self, tmp_path):
        """If the names of two checkpoints start with the same digits, only the files of the right one are copied."""
        train([ModelSaver(checkpoint_dir=str(tmp_path))], epochs=1, steps=1, step=99)
        self.saved(tmp_path, partial(MinSaver, "stat"), [1], steps=10)

        assert 10.0 == value_in(tmp_path, "min-stat")
        expected = sorted([*files_of("min-stat"), "min-stat.json"])
        assert expected == [n for n in names(tmp_path) if n.startswith("min")]

    def test_a_step_that_ends_alike(self, tmp_path, log_lines):
        """model-1100 is not mistaken for the checkpoint of step 100."""
        directory = str(tmp_path)
        train([ModelSaver(checkpoint_dir=directory)], epochs=1, steps=1, step=1099)
        best = MinSaver("stat", checkpoint_dir=directory)
        train([PutValues("stat", [1]), best], epochs=1, steps=1, step=99)

        assert best.best is None
        assert any("is best at step 100, but the latest checkpoint is model-1100" in line for line in log_lines)

    def test_a_best_that_was_not_kept_does_not_count(self, tmp_path):
        """If the checkpoint of the best step was not saved, a later saved one can still become the best."""
        directory = str(tmp_path)
        best = MinSaver("stat", checkpoint_dir=directory)
        saver = PeriodicTrigger(ModelSaver(checkpoint_dir=directory), every_k_steps=2, before_train=True)
        train([PutValues("stat", [1, 2]), saver, best], epochs=2, steps=1)

        assert (2, 2.0) == best.best

    @pytest.mark.parametrize("kind", [MinSaver, MaxSaver, partial(TopKSaver, mode="min")])
    def test_the_first_checkpoint_comes_later(self, tmp_path, kind, log_lines):
        """With a ModelSaver that is due every second epoch, epoch 1 is a warning, and training continues."""
        directory = str(tmp_path)
        saver = PeriodicTrigger(ModelSaver(checkpoint_dir=directory, fsync=False), every_k_epochs=2)
        best = kind("stat", checkpoint_dir=directory)
        train([PutValues("stat", [1, 2]), saver, best], epochs=2, steps=1)

        assert (2, 2.0) == best.best
        assert any("is best at step 1, but there is no checkpoint yet" in line for line in log_lines)

    def test_a_saver_behind(self, tmp_path):
        """A ModelSaver that comes later in the list is still an error in epoch 1."""
        directory = str(tmp_path)
        best, saver = MinSaver("stat", checkpoint_dir=directory), ModelSaver(checkpoint_dir=directory)
        with pytest.raises(RuntimeError, match="Put a ModelSaver with the same directory before"):
            train([PutValues("stat", [1, 2]), best, saver], epochs=2, steps=1)

    def test_nothing_was_saved(self, tmp_path):
        """Without any checkpoint, a RuntimeError asks for a ModelSaver."""
        with pytest.raises(RuntimeError, match="MinSaver: no checkpoint to copy in.*Put a ModelSaver"):
            train([PutValues("stat", [1]), MinSaver("stat", checkpoint_dir=str(tmp_path))])

    def test_without_a_directory(self):
        """Without a directory, setup_graph raises a RuntimeError with advice."""
        with pytest.raises(RuntimeError, match="MinSaver: no directory to save to"):
            train([MinSaver("stat")])

    @pytest.mark.slow
    def test_the_best_survives_a_restart(self, tmp_path):
        """A resumed training does not replace a better checkpoint of the training before it."""
        self.saved(tmp_path, partial(MaxSaver, "stat"), [5])
        best = MaxSaver("stat", checkpoint_dir=str(tmp_path))
        callbacks = [PutValues("stat", [4, 6]), ModelSaver(checkpoint_dir=str(tmp_path)), best]

        class Look(Callback):
            def _trigger(self) -> None:
                seen.append(best.best)

        seen = []
        train([*callbacks, Look()], epochs=3, starting_epoch=2, step=2)
        assert [(2, 5.0), (6, 6.0)] == seen

    def test_a_training_from_the_start_forgets_it(self, tmp_path):
        """A training that starts at step 0 in the same directory ignores the earlier best value."""
        self.saved(tmp_path, partial(MaxSaver, "stat"), [5])

        assert (2, 4.0) == self.saved(tmp_path, partial(MaxSaver, "stat"), [4])

    @pytest.mark.slow
    def test_a_record_without_its_files_is_not_used(self, tmp_path):
        """A record whose checkpoint files were deleted is ignored."""
        self.saved(tmp_path, partial(MaxSaver, "stat"), [5])
        os.unlink(str(tmp_path / "max-stat.index"))

        assert (4, 4.0) == self.saved(tmp_path, partial(MaxSaver, "stat"), [4], step=2)

    def test_a_broken_record_is_not_used(self, tmp_path, log_lines):
        """A damaged record is ignored with a warning."""
        self.saved(tmp_path, partial(MaxSaver, "stat"), [5])
        (tmp_path / "max-stat.json").write_text("{")

        assert (4, 4.0) == self.saved(tmp_path, partial(MaxSaver, "stat"), [4], step=2)
        assert any("max-stat.json cannot be read" in line for line in log_lines)

    def test_a_full_disk_keeps_the_old_copy(self, tmp_path):
        """If the disk is full, the previous copy stays intact."""
        directory = str(tmp_path)
        best = MinSaver("stat", checkpoint_dir=directory)
        copy = None

        class Fail(Callback):
            def _trigger(self) -> None:
                nonlocal copy
                copy = copy or best._store.copy
                if self.epoch_num == 2:
                    best._store.copy = failing

        def failing(*args):
            with disk_full_after(10):
                return copy(*args)

        with pytest.raises(OSError, match="MinSaver: cannot write '.*min-stat'"):
            train([PutValues("stat", [2, 1]), ModelSaver(checkpoint_dir=directory), Fail(), best])
        assert 2.0 == value_in(tmp_path, "min-stat")
        assert (2, 2.0) == best.best
