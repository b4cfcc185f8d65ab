"""JSONWriter: the content of `stats.json`, the times of writing, and existing files."""

from __future__ import annotations

import json
import os
import re

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.json_file import JSONWriter
from tensorpack_lite.loop.callback import Callback
from tensorpack_lite.loop.state import StopTraining


class Put(Callback):
    """Reports scalars at given times: {time: name}; the value is the global step."""

    def __init__(self, **moments) -> None:
        self._moments = moments

    def _put(self, moment: str) -> None:
        if moment in self._moments:
            self.trainer.monitors.put_scalar(self._moments[moment], self.global_step)

    def _before_train(self) -> None:
        self._put("before_train")

    def _trigger_step(self) -> None:
        self._put("step")
        self._put(f"step{self.local_step}")

    def _trigger(self) -> None:
        self._put("epoch")


def read(log_dir):
    """The file's content."""
    with open(os.path.join(log_dir, "stats.json")) as file:
        return json.load(file)


def write(log_dir, text) -> None:
    """Put a file there as if an earlier training had left it."""
    with open(os.path.join(log_dir, "stats.json"), "w") as file:
        file.write(text)


AT = {step: {"epoch_num": 1, "global_step": step} for step in (1, 2)}


class TestWhenItIsWritten:
    def test_the_exact_file(self, log_dir):
        """The file is one array on one line; epoch_num and global_step come last in each object."""
        run(CountingTrainer(), [Put(epoch="error")], [JSONWriter()])

        with open(os.path.join(log_dir, "stats.json")) as file:
            assert (
                '[{"error": 2, "epoch_num": 1, "global_step": 2}, {"error": 4, "epoch_num": 2, "global_step": 4}]'
                == file.read()
            )
        assert not os.path.exists(os.path.join(log_dir, "stats.json.tmp"))

    @pytest.mark.parametrize(
        ("moments", "steps", "expected"),
        [
            ({"step": "cost", "epoch": "error"}, 2, [{"cost": 1, **AT[1]}, {"cost": 2, "error": 2, **AT[2]}]),
            ({"step1": "cost"}, 4, [{"cost": 2, **AT[2]}]),  # a step that reports nothing has no object
            ({"before_train": "x"}, 1, [{"x": 0, "epoch_num": 0, "global_step": 0}]),
        ],
    )
    def test_objects(self, log_dir, moments, steps, expected):
        """Each step has an object, which the last step shares with the epoch; before training, epoch_num is 0."""
        run(CountingTrainer(), [Put(**moments)], [JSONWriter()], steps=steps, epochs=1)
        assert expected == read(log_dir)

    def test_an_interrupted_epoch_is_not_written(self, log_dir):
        """If training stops within an epoch, the scalars of its last step are not written."""

        class Stop(Callback):
            def _trigger_step(self) -> None:
                if self.global_step == 2:
                    raise StopTraining

        run(CountingTrainer(), [Put(step="cost"), Stop()], [JSONWriter()], steps=3, epochs=1)

        assert [{"cost": 1, "epoch_num": 1, "global_step": 1}] == read(log_dir)

    def test_a_disk_error_is_logged(self, log_dir, log_lines):
        """A disk error is logged, and training continues without the file."""
        os.mkdir(os.path.join(log_dir, "stats.json.tmp"))
        trainer = run(CountingTrainer(), [Put(epoch="error")], [JSONWriter()])

        assert 4 == trainer.global_step
        assert any(line.startswith("JSONWriter: cannot write") for line in log_lines)


class TestAnExistingFile:
    OLD = '[{"error": 1, "epoch_num": 3, "global_step": 6}]'

    def train(self, starting_epoch):
        run(CountingTrainer(), [Put(epoch="error")], [JSONWriter()], 2, starting_epoch, starting_epoch)

    def backups(self, log_dir):
        return [f for f in os.listdir(log_dir) if re.fullmatch(r"stats\.json\.\d{4}-\d{6}", f)]

    def test_the_next_epoch_continues_it(self, log_dir):
        """A training that starts with the epoch after the file's last epoch appends to the file."""
        write(log_dir, self.OLD)
        self.train(4)

        assert [(3, 1), (4, 2)] == [(e["epoch_num"], e["error"]) for e in read(log_dir)]
        assert [] == self.backups(log_dir)

    @pytest.mark.parametrize("starting_epoch", [1, 3, 5])
    def test_another_epoch_moves_it(self, log_dir, log_lines, starting_epoch):
        """With any other starting epoch, the old file is renamed, with a warning."""
        write(log_dir, self.OLD)
        self.train(starting_epoch)

        assert [starting_epoch] == [e["epoch_num"] for e in read(log_dir)]
        assert 1 == len(self.backups(log_dir))
        assert any("pass starting_epoch=4" in line for line in log_lines)

    @pytest.mark.parametrize("old", ["[]", '[{"error": 1}]'])
    def test_an_unknown_epoch_continues_it(self, log_dir, old):
        """A file without an epoch is continued."""
        write(log_dir, old)
        self.train(4)

        assert [*json.loads(old), {"error": 2, "epoch_num": 4, "global_step": 2}] == read(log_dir)

    def test_a_broken_file_is_moved(self, log_dir):
        """A file that is not valid JSON is renamed."""
        write(log_dir, "[{")
        self.train(4)

        assert [4] == [e["epoch_num"] for e in read(log_dir)]
        assert 1 == len(self.backups(log_dir))


class TestLoading:
    def test_elements_and_epoch(self, log_dir):
        """The list of objects and the epoch of the last one can be loaded."""
        write(log_dir, '[{"epoch_num": 1}, {"epoch_num": 2}]')

        assert [{"epoch_num": 1}, {"epoch_num": 2}] == JSONWriter.load_existing_json()
        assert 2 == JSONWriter.load_existing_epoch_number(log_dir)

    def test_no_file_and_no_directory(self, tmp_path):
        """Without a file or a directory, the result is None."""
        assert JSONWriter.load_existing_json() is None
        assert JSONWriter.load_existing_json(str(tmp_path)) is None
        assert JSONWriter.load_existing_epoch_number() is None

    @pytest.mark.parametrize(("text", "match"), [("[", "JSONDecodeError"), ("{}", "does not hold a list of objects")])
    def test_a_broken_file(self, log_dir, text, match):
        """For a damaged file, loading the objects raises an error, and the epoch is None."""
        write(log_dir, text)

        with pytest.raises(ValueError, match=match):
            JSONWriter.load_existing_json()
        assert JSONWriter.load_existing_epoch_number() is None


NOT_FINITE = {"a": float("nan"), "b": float("inf"), "c": -float("inf")}


def strictly(name):
    raise ValueError(f"{name} is not JSON")


def test_not_finite(log_dir):
    """NaN and infinity are written as strings, because JSON does not have them, and are read as numbers."""

    class PutAll(Callback):
        def _trigger(self):
            for name, value in NOT_FINITE.items():
                self.trainer.monitors.put_scalar(name, value)

    run(CountingTrainer(), [PutAll()], [JSONWriter()], epochs=1)
    with open(os.path.join(log_dir, "stats.json")) as file:
        (row,) = json.load(file, parse_constant=strictly)
    assert ["NaN", "Infinity", "-Infinity"] == [row[name] for name in "abc"]
    (row,) = JSONWriter.load_existing_json(log_dir)
    assert str(NOT_FINITE) == str({name: row[name] for name in "abc"})


def test_not_finite_of_an_earlier_version(log_dir):
    """A file of an earlier version, in which they are not strings, is read and continued."""
    write(log_dir, '[{"a": NaN, "b": Infinity, "c": -Infinity, "epoch_num": 1, "global_step": 2}]')
    (row,) = JSONWriter.load_existing_json(log_dir)
    assert str(NOT_FINITE) == str({name: row[name] for name in "abc"})
    run(CountingTrainer(), [Put(epoch="d")], [JSONWriter()], epochs=2, starting_epoch=2)
    with open(os.path.join(log_dir, "stats.json")) as file:
        rows = json.load(file, parse_constant=strictly)
    assert [1, 2] == [row["epoch_num"] for row in rows]
