"""ScalarTable, the default report after each epoch."""

from __future__ import annotations

import re

import pytest
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.table import ScalarTable


def tables(log_lines):
    """The scalars of each epoch, as in the log."""
    title = re.compile(r"Epoch \d+( \(\*: best so far\))?: ")
    found = [title.sub("", line) for line in log_lines if title.match(line)]
    return [re.split(r", (?!epoch)", re.sub(r",\n  ", ", ", text)) for text in found]


def train(values):
    """Train one epoch for each value of one of the statistics; all have as many values."""
    puts = [PutValues(name, series) for name, series in values.items()]
    return run(CountingTrainer(), puts, [ScalarTable()], steps=1, epochs=max(map(len, values.values())))


def test_best_values(log_lines):
    """The best value so far has a star; of validation, an earlier best value is named; other names have none."""
    train({"val_error": [0.5, 0.25, 0.75], "accuracy": [0.5, 0.75, 0.25], "learning_rate": [3, 2, 1]})

    assert [
        ["val_error 0.5*", "accuracy 0.5*", "learning_rate 3"],
        ["val_error 0.25*", "accuracy 0.75*", "learning_rate 2"],
        ["val_error 0.75 (best 0.25, epoch 2)", "accuracy 0.25", "learning_rate 1"],
    ] == tables(log_lines)
    assert 1 == sum("(*: best so far)" in line for line in log_lines)


def test_three_lines_of_80_columns(log_lines):
    """Three lines hold what fits, beside a prefix of 16 characters; what is left out is counted, and is least important."""
    names = [f"statistic_{number:02}" for number in range(30)]
    train({**{name: [1.0] for name in names}, "QueueInput/queue_size": [50], "val_cost": [0.123456789]})
    (line,) = [line for line in log_lines if line.startswith("Epoch 1 (*")]
    lines = line.split("\n")
    assert [True] * 3 == [len(text) <= 80 for text in [" " * 16 + lines[0], *lines[1:]]]
    cells = tables(log_lines)[0]
    assert ["val_cost 0.1235*", *[f"{name} 1" for name in names[: len(cells) - 2]]] == cells[:-1]
    assert f"and {32 - len(cells) + 1} more" == cells[-1]
    assert len(cells) > 8


def test_nan_is_never_the_best(log_lines):
    """A statistic whose first value is NaN has no best value until a number is reported."""
    train({"val_cost": [float("nan"), 2.0, float("nan")]})

    assert [["val_cost nan"], ["val_cost 2*"], ["val_cost nan (best 2, epoch 2)"]] == tables(log_lines)


def test_a_scalar_is_listed_only_if_it_was_reported(log_lines):
    """An epoch that reports nothing has no line."""
    train({"cost": [1.0, None, 0.5]})

    assert [["cost 1*"], ["cost 0.5*"]] == tables(log_lines)


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("val_cross_entropy_loss", -1),
        ("wrong-top1", -1),
        ("precision_loss", -1),
        ("val/F1", 1),
        ("error_score", 1),
        ("lossless", 0),
        ("QueueInput/queue_size", 0),
    ],
)
def test_the_last_word_with_a_direction_decides(log_lines, name, sign):
    """The best of the values 1 and 2 is 1 if smaller is better, 2 if larger is better, and otherwise unknown."""
    train({name: [1, 2]})

    marks = [table[0].endswith("*") for table in tables(log_lines)]
    assert {-1: [True, False], 0: [False, False], 1: [True, True]}[sign] == marks


def test_a_resumed_training_keeps_the_best():
    """The best values and their epochs survive state_dict and load_state_dict."""
    first, second = ScalarTable(), ScalarTable()
    first._best = {"cost": (0.5, 3)}
    second.load_state_dict(first.state_dict())

    assert {"cost": (0.5, 3)} == second._best
