"""SendMonitorData: scalars in a shell command."""

from __future__ import annotations

from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.command import SendMonitorData
from tensorpack_lite.loop.callback import Callback


class Put(Callback):
    """Reports `a` at each step and `b` at each epoch."""

    def _trigger_step(self) -> None:
        self.trainer.monitors.put_scalar("a", self.global_step)

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("b", self.epoch_num)


def test_it_waits_for_all_names(tmp_path):
    """The command runs once all names have been reported, with the last value of each, and then waits for all again."""
    path = tmp_path / "sent"
    run(CountingTrainer(), [Put()], [SendMonitorData(f"echo {{a}} {{b}} >> {path}", ["a", "b"])])

    assert "2 1\n4 2\n" == path.read_text()


def test_a_command_that_fails_is_logged(log_lines):
    """A failing command is logged, and training continues."""
    trainer = run(CountingTrainer(), [Put()], [SendMonitorData("exit {b}", ["b"])], epochs=1)

    assert 2 == trainer.global_step
    assert any(line.startswith("SendMonitorData: the command failed with status") for line in log_lines)
