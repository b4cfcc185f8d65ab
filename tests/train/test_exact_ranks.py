"""Exact resume of several ranks, with real processes: killed and preempted training runs equal an uninterrupted one."""

from __future__ import annotations

import json
from signal import SIGKILL, SIGTERM

import pytest
from fakes.exact_trainings import compared_rows
from fakes.launching import TESTS, launch

SCRIPT = str(TESTS / "fakes" / "exact_ranks.py")

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]


def train(size, engine, directory, kind, *fault):
    """Train until the end or the fault, and return the launcher's code and output."""
    directory.mkdir(exist_ok=True)
    ended = launch(size, SCRIPT, engine, directory, kind, *fault)
    return ended.code, ended.out + ended.err


def lines(directory, rank):
    """Return the lines of a rank."""
    return [json.loads(line) for line in (directory / f"rank-{rank}.txt").read_text().splitlines()]


def files(directory):
    """Return the last checkpoint and the statistics, except for measured ones."""
    names = ("model-30.data-00000-of-00001", "model-30.index")
    return [*((directory / "log" / name).read_bytes() for name in names), compared_rows(directory / "log")]


@pytest.mark.parametrize(
    ("engine", "faults"),
    [
        ("collective", [(SIGKILL, 7, "1"), (SIGTERM, 20, "01")]),
        pytest.param("collective", [(SIGTERM, 13, "1"), (SIGKILL, 25, "01")], marks=pytest.mark.proof),
        pytest.param("horovod", [(SIGKILL, 7, "0"), (SIGTERM, 13, "1")], marks=pytest.mark.horovod),
    ],
)
def test_killed_and_preempted(tmp_path, engine, faults):
    """SIGKILL and SIGTERM to any rank, then a restart: checkpoint, statistics and batches of all ranks are the same."""
    code, output = train(2, engine, tmp_path / "whole", "own")
    assert 0 == code, output
    for number, step, ranks in faults:
        code, output = train(2, engine, tmp_path / "resumed", "own", int(number), step, ranks)
        assert (143 if number == SIGTERM else 137) == code, output
        assert "NOT exact" not in output
    code, output = train(2, engine, tmp_path / "resumed", "own")
    assert 0 == code, output
    assert files(tmp_path / "whole") == files(tmp_path / "resumed")
    for rank in range(2):
        whole = {line[0]: line for line in lines(tmp_path / "whole", rank)}
        assert list(range(1, 31)) == sorted(whole)
        assert all(line == whole[line[0]] for line in lines(tmp_path / "resumed", rank))


@pytest.mark.proof
def test_another_number_of_ranks(tmp_path):
    """With ShardData, 2, then 1, then 3 ranks use each datapoint exactly once in each pass."""
    for size, fault, wanted in (
        (2, (int(SIGTERM), 7, "1"), 143),
        (1, (int(SIGTERM), 16, "0"), 143),
        (3, (), 0),
    ):
        code, output = train(size, "collective", tmp_path, "shard", *fault)
        assert wanted == code, output
        assert "starts from the beginning" not in output
    used = {step: [] for step in range(1, 31)}
    for rank in range(3):
        for step, _, batch in lines(tmp_path, rank):
            used[step] += batch
    for first in range(1, 31, 5):  # a pass has 60 datapoints, which are 5 steps
        assert list(range(60)) == sorted(one for step in range(first, first + 5) for one in used[step])


@pytest.mark.nightly
def test_from_one_rank_to_two_and_back(tmp_path):
    """Callbacks that were due when the checkpoint was saved are called by another number of ranks, which draw other numbers."""
    for size, fault, wanted in (
        (1, (int(SIGKILL), 8, "0"), 137),
        (2, (int(SIGKILL), 16, "0"), 137),
        (1, (), 0),
    ):
        code, output = train(size, "collective", tmp_path, "shard", *fault)
        assert wanted == code, output
        assert "skipped" not in output
    drawn = [{step: drawn for step, drawn, _ in lines(tmp_path, rank)} for rank in range(2)]
    assert list(range(1, 31)) == sorted(drawn[0])
    due = [
        drawn[0][8],
        drawn[0][9],
        drawn[1][9],
        drawn[0][17],
    ]  # the numbers of the due calls after steps 8 and 16
    assert 4 == len({numbers[0] for numbers in due})


def test_a_saver_of_the_chief_only(tmp_path):
    """If only the chief's script has a ModelSaver, training works, and the log says that it is not resumed exactly."""
    code, output = train(2, "collective", tmp_path, "chief saves", 0, 0)
    assert 0 == code, output
    assert "NOT exact: not all ranks have the chief's ModelSaver" in output
