"""Several ranks over either engine: mean and sum in closed form, the broadcast of each epoch, files, and a third rank."""

from __future__ import annotations

import json

import pytest
from fakes.launching import CASES, SCRIPT, launch, running_with

pytestmark = pytest.mark.slow


@pytest.fixture(params=["collective", pytest.param("horovod", marks=pytest.mark.horovod)])
def engine(request):
    return request.param


def trained(size, engine, directory, mode):
    """Train, and return the weight after each epoch on each rank."""
    ended = launch(size, CASES, "sums", engine, directory, mode)
    assert 0 == ended.code, ended.out + ended.err
    return [json.loads((directory / f"w-{rank}.json").read_text()) for rank in range(size)]


@pytest.mark.parametrize(("mode", "slope"), [("mean", 2), pytest.param("sum", 6, marks=pytest.mark.proof)])
def test_mean_and_sum(tmp_path, engine, mode, slope):
    """The ranks average or sum the slopes 1, 2 and 3, from a weight of 100. Only the chief writes logs."""
    assert [[100 - 4 * slope, 100 - 8 * slope]] * 3 == trained(3, engine, tmp_path, mode)
    assert ["log", "w-0.json", "w-1.json", "w-2.json"] == sorted(path.name for path in tmp_path.iterdir())


def test_the_chief_ends_with_the_best_model(tmp_path, engine):
    """With `restore_best`, the chief ends with the variables of the best epoch, and the other rank with those of the last one."""
    assert [[94, 88, 94], [94, 88, 88]] == trained(2, engine, tmp_path, "best")


@pytest.mark.full
def test_the_broadcast_of_each_epoch(tmp_path, engine):
    """The broadcast gives a rank that has drifted the chief's weight; without it the weights stay different."""
    for mode, second in (("drift, repaired", [94, 88]), ("drift, left", [95, 89])):
        assert [[94, 88], second] == trained(2, engine, tmp_path, mode)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("fault", "limit", "told"),
    [
        ("kill", 20, "Rank 1 died without reporting an error, last seen after step"),
        ("stop", 6, "Rank 1 has been silent for 6 s, last seen after step"),
        ("callback", 20, "Rank 1 failed after step 5, training: KeyError: 'planted in a callback'"),
    ],
)
def test_one_of_three(tmp_path, engine, fault, limit, told):
    """When one of three ranks fails, both others end with the error, and no process is left."""
    ended = launch(3, SCRIPT, engine, tmp_path, fault, limit)
    lines = [line for line in (ended.out + ended.err).splitlines() if told in line]
    assert {"[0]", "[2]"} <= {line[:3] for line in lines}
    assert {"kill": 137, "stop": 128, "callback": 1}[fault] == ended.code
    assert [] == running_with(str(tmp_path))


@pytest.mark.any_tensorflow
def test_resume_inside_an_epoch(tmp_path):
    """All ranks resume at the chief's place inside an epoch, with other random streams than at the start."""
    seen = []
    for end, code in ((10, 1), (0, 0)):
        ended = launch(2, CASES, "resumed", tmp_path, end)
        assert code == min(ended.code, 1), ended.out + ended.err
        seen.append([json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)])
    for first, resumed in zip(*seen):
        steps = [note[:2] for note in resumed["notes"]]
        assert [[2, 2], [2, 3], [2, 4], [2, 5], *[[3, step] for step in range(6)]] == steps
        assert -18.0 == resumed["weight"]
        assert [note[2] for note in first["notes"]] != [note[2] for note in resumed["notes"]][:10]
