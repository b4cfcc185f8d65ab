"""ScalarPrinter: scalars as lines of the log."""

from __future__ import annotations

import pytest
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.printer import ScalarPrinter
from tensorpack_lite.loop.callback import Callback


class Put(Callback):
    """Reports at each step and each epoch."""

    def _before_train(self) -> None:
        self.trainer.monitors.put_scalar("start", 1)

    def _trigger_step(self) -> None:
        self.trainer.monitors.put_scalar("b/step", self.global_step)

    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("a-epoch", self.epoch_num / 3)


def lines(log_lines, **arguments):
    """The scalar lines of two epochs of two steps."""
    run(CountingTrainer(), [Put()], [ScalarPrinter(**arguments)])
    return [line for line in log_lines if line.startswith(("start", "b/step", "a-epoch"))]


def test_each_epoch(log_lines):
    """By default, the last values are logged before training and after each epoch, sorted, with five digits."""
    expected = ["start: 1", "a-epoch: 0.33333", "b/step: 2", "a-epoch: 0.66667", "b/step: 4"]
    assert expected == lines(log_lines)


def test_each_step(log_lines):
    """The scalars of an epoch's last step are logged with the epoch."""
    assert [
        "start: 1", "b/step: 1", "a-epoch: 0.33333", "b/step: 2", "b/step: 3", "a-epoch: 0.66667", "b/step: 4",
    ] == lines(log_lines, enable_step=True)  # fmt: skip


def test_steps_only(log_lines):
    """With enable_epoch=False, the last step has its own lines, and the epoch's scalars come with the next step."""
    assert [
        "start: 1", "b/step: 1", "b/step: 2", "a-epoch: 0.33333", "b/step: 3", "b/step: 4",
    ] == lines(log_lines, enable_step=True, enable_epoch=False)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"whitelist": ["epoch"]}, {"a-epoch"}),
        ({"whitelist": ["^b", "t$"]}, {"b/step", "start"}),
        ({"blacklist": ["st"]}, {"a-epoch"}),
        ({"whitelist": ["st"], "blacklist": ["/"]}, {"start"}),
        ({"whitelist": "epoch"}, {"a-epoch"}),
        ({"whitelist": []}, set()),
    ],
)
def test_white_and_black(log_lines, arguments, names):
    """Expressions match anywhere in a name; no whitelist allows all names, an empty whitelist none."""
    assert names == {line.split(":")[0] for line in lines(log_lines, **arguments)}
