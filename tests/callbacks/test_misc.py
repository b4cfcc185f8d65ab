"""EstimatedTimeLeft, SendStat and InjectShell."""

from __future__ import annotations

import os
import pdb
import sys
from types import SimpleNamespace

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks import misc
from tensorpack_lite.callbacks.misc import EstimatedTimeLeft, InjectShell, SendStat
from tensorpack_lite.loop.callback_factory import CallbackFactory


def put(name):
    """A callback that reports the epoch."""
    return CallbackFactory(trigger=lambda self: self.trainer.monitors.put_scalar(name, self.epoch_num))


class TestEstimatedTimeLeft:
    def lines(self, log_lines, monkeypatch, seconds, **arguments):
        """Train one epoch for each duration, by a clock of our own, and one more that has no line."""
        clock = iter([sum(seconds[:i]) for i in range(len(seconds) + 1)])
        monkeypatch.setattr(misc, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
        run(CountingTrainer(), [EstimatedTimeLeft(**arguments)], steps=1, epochs=len(seconds))
        return [line for line in log_lines if line.startswith("Estimated time left")]

    def test_median(self, log_lines, monkeypatch):
        """
        The estimate is the median of the epochs so far times the epochs left; nothing is logged after the last
        epoch.
        """
        assert [
            "Estimated time left: 30 seconds", "Estimated time left: 22 seconds", "Estimated time left: 12 seconds",
        ] == self.lines(log_lines, monkeypatch, [10, 12, 100, 7])  # fmt: skip

    def test_mean_of_the_last(self, log_lines, monkeypatch):
        """With median=False, the estimate uses the mean of the last k epochs."""
        found = self.lines(log_lines, monkeypatch, [100, 10, 20, 7], last_k_epochs=2, median=False)
        assert "Estimated time left: 15 seconds" == found[-1]


class TestSendStat:
    def test_a_command(self, tmp_path):
        """The command runs at each trigger with the latest values."""
        path = tmp_path / "sent"
        run(CountingTrainer(), [put("n"), SendStat(f"echo {{n}} >> {path}", "n")])

        assert ["1.0", "2.0"] == path.read_text().split()

    def test_a_statistic_that_nobody_reports(self):
        """A scalar that was not reported raises a KeyError that names it."""
        with pytest.raises(KeyError, match="'n' has not been reported"):
            run(CountingTrainer(), [SendStat("echo {n}", ["n"])])

    def test_a_command_that_fails_is_logged(self, log_lines):
        """A failing command is logged, and training continues."""
        assert 4 == run(CountingTrainer(), [put("n"), SendStat("exit {n}", "n")]).global_step
        assert 2 == len([line for line in log_lines if line.startswith("SendStat: the command failed")])


class TestInjectShell:
    def test_a_file_opens_a_shell(self, tmp_path, monkeypatch):
        """Each trigger opens the shell while the file exists; the file is removed after training."""
        opened = []
        monkeypatch.setattr(pdb, "set_trace", lambda: opened.append(1))
        path = str(tmp_path / "shell")
        touch = CallbackFactory(trigger=lambda self: self.epoch_num == 2 and open(path, "w").close())
        run(CountingTrainer(), [touch, InjectShell(path, "pdb")], epochs=3)

        assert 2 == len(opened)
        assert not os.path.exists(path)

    def test_without_the_file(self, tmp_path, monkeypatch):
        """Without the file, no shell opens."""
        monkeypatch.setattr(pdb, "set_trace", lambda: pytest.fail("opened"))
        run(CountingTrainer(), [InjectShell(str(tmp_path / "shell"), "pdb")])

    def test_ipython(self, tmp_path, monkeypatch):
        """The default shell is IPython."""
        opened = []
        shell = SimpleNamespace(embed=lambda: opened.append(1))
        monkeypatch.setitem(sys.modules, "IPython", shell)
        path = tmp_path / "shell"
        path.touch()
        run(CountingTrainer(), [InjectShell(str(path))], epochs=1)

        assert [1] == opened

    def test_without_ipython(self, tmp_path, monkeypatch):
        """Without IPython, the error shows the command that installs it, and mentions pdb."""
        monkeypatch.setitem(sys.modules, "IPython", None)
        path = tmp_path / "shell"
        path.touch()
        with pytest.raises(ImportError, match="pip install ipython, or use shell='pdb'"):
            run(CountingTrainer(), [InjectShell(str(path))], epochs=1)
