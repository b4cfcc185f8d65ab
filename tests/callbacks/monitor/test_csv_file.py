"""CSVWriter: the content of `stats.csv`, and existing files."""

from __future__ import annotations

import os
import re

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.csv_file import CSVWriter
from tensorpack_lite.loop.callback import Callback


class Put(Callback):
    """Reports the global step at each trigger, under the names of the epoch, and `step` after steps."""

    def __init__(self, *names_of_epochs, after_steps=False) -> None:
        self._names = iter(names_of_epochs)
        self._after_steps = after_steps

    def _trigger_step(self) -> None:
        if self._after_steps:
            self.trainer.monitors.put_scalar("step", self.global_step)

    def _trigger(self) -> None:
        for name in next(self._names).split():
            self.trainer.monitors.put_scalar(name, self.global_step)


def read(log_dir):
    """The lines of the file."""
    with open(os.path.join(log_dir, "stats.csv"), newline="") as file:
        return file.read().splitlines()


def write(log_dir, text) -> None:
    """Put a file there as if an earlier training had left it."""
    with open(os.path.join(log_dir, "stats.csv"), "w") as file:
        file.write(text)


def test_rows_of_steps(log_dir):
    """Each step has its own row, except the last step of an epoch."""
    run(CountingTrainer(), [Put("error", after_steps=True)], [CSVWriter()], steps=3, epochs=1)

    assert ["epoch_num,global_step,step,error", "1,1,1,", "1,2,2,", "1,3,3,3"] == read(log_dir)


def test_a_new_column(log_dir):
    """A new scalar adds a column that is empty in older rows; a missing scalar leaves its cell empty."""
    run(CountingTrainer(), [Put("a", "a b", "b")], [CSVWriter()], epochs=3)

    assert ["epoch_num,global_step,a,b", "1,2,2,", "2,4,4,4", "3,6,,6"] == read(log_dir)


def test_names_with_commas_and_quotes(log_dir):
    """Names with commas and quotes are quoted as CSV readers expect."""
    run(CountingTrainer(), [Put('a,"b')], [CSVWriter()], epochs=1)

    assert 'epoch_num,global_step,"a,""b"' == read(log_dir)[0]


def test_a_path(tmp_path):
    """With a path, no logger directory is needed."""
    run(CountingTrainer(), [Put("a")], [CSVWriter(str(tmp_path / "my.csv"))], epochs=1)

    assert "epoch_num,global_step,a\n1,2,2\n" == (tmp_path / "my.csv").read_text().replace("\r", "")


def test_a_training_that_resumes_continues_it(log_dir):
    """A resumed training keeps the old columns first, and the old rows unchanged."""
    write(log_dir, "epoch_num,global_step,a\n1,2,0.5\n")
    run(CountingTrainer(), [Put("b", "a b")], [CSVWriter()], epochs=3, starting_epoch=2)

    assert ["epoch_num,global_step,a,b", "1,2,0.5,", "2,2,,2", "3,4,4,4"] == read(log_dir)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("epoch_num,global_step,a\n1,2,0.5\n", "training starts at epoch 1"),
        ("epoch_num,global_step,a\nx,2,0.5\n", "training starts at epoch 1"),
        ("something else\n", "has the wrong first columns"),
        ("", "has the wrong first columns"),
    ],
    ids=["same epoch", "no number", "no CSV of ours", "empty"],
)
def test_otherwise_it_is_moved(log_dir, log_lines, text, reason):
    """A file that the training does not continue is moved; the warning gives the reason and the new name."""
    write(log_dir, text)
    run(CountingTrainer(), [Put("a")], [CSVWriter()], epochs=1)

    moved = [f for f in os.listdir(log_dir) if re.fullmatch(r"stats\.csv\.\d{4}-\d{6}", f)]
    assert ["epoch_num,global_step,a", "1,2,2"] == read(log_dir)
    with open(os.path.join(log_dir, moved[0])) as file:
        assert text == file.read()
    assert 1 == len([line for line in log_lines if reason in line and moved[0] in line])


@pytest.mark.parametrize("damaged", [b"1,2,\xff", b"1,2,3,4", b"1,2," + b"9" * 200000])
def test_a_damaged_file_is_moved(log_dir, log_lines, damaged):
    """A file that is not a valid table is moved with a warning, and training writes a new one."""
    with open(os.path.join(log_dir, "stats.csv"), "wb") as file:
        file.write(b"epoch_num,global_step,error\r\n" + damaged + b"\r\n")

    run(CountingTrainer(), [Put("error", "error")], [CSVWriter()])

    assert ["epoch_num,global_step,error", "1,2,2", "2,4,4"] == read(log_dir)
    assert 1 == len([line for line in log_lines if "stats.csv cannot be read as a table" in line])
    assert 2 == len([name for name in os.listdir(log_dir) if name.startswith("stats.csv")])


def test_a_header_without_rows_is_continued(log_dir):
    """A file that holds only the header is continued."""
    write(log_dir, "epoch_num,global_step,a\n")
    run(CountingTrainer(), [Put("a")], [CSVWriter()], epochs=1)

    assert ["epoch_num,global_step,a", "1,2,2"] == read(log_dir)


def test_a_disk_error_is_logged(log_dir, log_lines):
    """A disk error is logged, and training continues."""
    writer = CSVWriter(os.path.join(log_dir, "missing", "stats.csv"))
    assert 4 == run(CountingTrainer(), [Put("a", "a")], [writer]).global_step

    assert 2 == len([line for line in log_lines if "CSVWriter: cannot write" in line])
