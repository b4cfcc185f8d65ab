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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # sorted, with five digits
        ({}, "start: 1, a-epoch: 0.33333, b/step: 2, a-epoch: 0.66667, b/step: 4"),
        # the scalars of an epoch's last step come with the epoch
        (
            {"enable_step": True},
            "start: 1, b/step: 1, a-epoch: 0.33333, b/step: 2, b/step: 3, a-epoch: 0.66667, b/step: 4",
        ),
        # the last step has its own lines, and the epoch's scalars come with the next step
        (
            {"enable_step": True, "enable_epoch": False},
            "start: 1, b/step: 1, b/step: 2, a-epoch: 0.33333, b/step: 3, b/step: 4",
        ),
    ],
)
def test_epochs_and_steps(log_lines, arguments, expected):
    """The last values are logged before training, and after each epoch or step."""
    assert expected.split(", ") == lines(log_lines, **arguments)


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
