"""ScalarTable, the default report after each epoch."""

from __future__ import annotations

import pytest
from fakes.recording import PutValues
from fakes.trainers import CountingTrainer, run

from tensorpack_lite.callbacks.monitor.table import ScalarTable


def tables(log_lines):
    """The rows of each table, split into words, without the heading."""
    found = [line.splitlines() for line in log_lines if line.startswith("Statistics of epoch")]
    return [[row.split() for row in table[3:]] for table in found]


def train(values):
    """Train one epoch for each value of one of the statistics; all have as many values."""
    puts = [PutValues(name, series) for name, series in values.items()]
    return run(CountingTrainer(), puts, [ScalarTable()], steps=1, epochs=max(map(len, values.values())))


def test_each_epoch_has_a_table_with_the_best_values(log_lines):
    """A table lists value, best value and its epoch; a name without a known direction has no best value."""
    train({"val_error": [0.5, 0.25, 0.75], "accuracy": [0.5, 0.75, 0.25], "learning_rate": [3, 2, 1]})

    assert [
        [["accuracy", "0.5", "0.5", "1"], ["learning_rate", "3"], ["val_error", "0.5", "0.5", "1"]],
        [["accuracy", "0.75", "0.75", "2"], ["learning_rate", "2"], ["val_error", "0.25", "0.25", "2"]],
        [["accuracy", "0.25", "0.75", "2"], ["learning_rate", "1"], ["val_error", "0.75", "0.25", "2"]],
    ] == tables(log_lines)


def test_nan_is_never_the_best(log_lines):
    """A statistic whose first value is NaN has no best value until a number is reported."""
    train({"cost": [float("nan"), 2.0, float("nan")]})

    assert [["cost", "nan"], ["cost", "2", "2", "2"], ["cost", "nan", "2", "2"]] == [
        rows[0] for rows in tables(log_lines)
    ]


def test_a_scalar_is_listed_only_if_it_was_reported(log_lines):
    """An epoch that reports nothing has no table."""
    train({"cost": [1.0, None, 0.5]})

    assert [[["cost", "1", "1", "1"]], [["cost", "0.5", "0.5", "3"]]] == tables(log_lines)


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

    assert {-1: ["1", "1"], 0: [], 1: ["2", "2"]}[sign] == tables(log_lines)[-1][0][2:]


def test_a_resumed_training_keeps_the_best():
    """The best values and their epochs survive state_dict and load_state_dict."""
    first, second = ScalarTable(), ScalarTable()
    first._best = {"cost": (0.5, 3)}
    second.load_state_dict(first.state_dict())

    assert {"cost": (0.5, 3)} == second._best
