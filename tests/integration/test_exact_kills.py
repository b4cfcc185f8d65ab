"""A training with exact resume that is ended in any way and restarted ends with the bytes of an uninterrupted one."""

from __future__ import annotations

import random
import shutil
import signal

import pytest
from fakes.exact_trainings import CASES, EPOCHS, INTERRUPTED, TERMINATED, lines, results, row, trainings

from tensorpack_lite.loop.moments import at_epoch_end, of_step

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]

IN_CI = ("mixed, staged", "replicated")


def each_case(mark=pytest.mark.slow):
    """Parametrize a test by cases. The mark is that of the case which CI tests; the others are proofs."""
    marks = {case: mark if case == IN_CI else pytest.mark.proof for case in CASES}
    return pytest.mark.parametrize("case", [pytest.param(case, id="-".join(case), marks=marks[case]) for case in CASES])


@pytest.fixture(scope="module")
def of(tmp_path_factory):
    with trainings(tmp_path_factory.mktemp("trainings")) as found:
        yield found


@each_case()
def test_random_kills(of, case):
    """SIGKILL and SIGTERM at random times, inside steps, callbacks, writes and the start, do not change the result."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    print(row(case, seed, of(case).kill_at_random(seed, kills=5 if case == IN_CI else 10)))


def at(name, moment, step):
    """Return the option that kills the process at a moment of the callback "first", "middle" (both around the ModelSaver) or "last", in
    a step that is counted from 1 over all epochs; None means the first call."""
    return {"at": [name, moment, step, "SIGKILL"]}


# Checkpoints are saved at steps 10, 20, 24 and so on.
FORCED = [
    at("last", "before_train", None),
    at("last", "trigger_step", 8),  # no checkpoint is saved yet, and again:
    {"made": 60},
    {**at("last", "trigger_step", 19), "snapshot_seconds": 1000},
    {"made": 4},  # while the first datapoints are replayed, twice before the next checkpoint
    {"made": 7},
    {"file_change": 9},
    *(at("middle", moment, 20) for moment in of_step()),
    at("first", "before_run", 22),
    at("first", "after_run", 22),
    *(at("first", moment, None) for moment in at_epoch_end()),
    at("first", "trigger", 24),
    at("middle", "trigger", 24),
    at("last", "trigger", 24),
    at("first", "before_epoch", None),
]


@each_case(pytest.mark.proof)
def test_kills_at_places(of, case):
    """SIGKILL in callbacks around the ModelSaver, inside a save, and while datapoints are replayed, does not change the result."""
    training = of(case)
    directory = training.new_directory()
    for told in FORCED:
        if (
            told == {"made": 60} and case[0] == "user"
        ):  # FeedInput reads nothing ahead: the 60th would be used in step 60
            told = {"made": 9}
        code, output = training.run(directory, **told)
        assert -signal.SIGKILL == code, (told, output)
    training.finish(directory)
    training.compare(directory)


@each_case(pytest.mark.proof)
def test_kills_before_each_change_of_a_file(of, case):
    """SIGKILL before each seventh change of the training's files, each time in a process that gets further, does not change the result."""
    training = of(case)
    directory = training.new_directory()
    kills = 0
    while training.run(directory, file_change=1 + 7 * kills)[0] != 0:
        kills += 1
        assert kills < 100
    training.compare(directory)


@each_case(pytest.mark.full)
def test_no_seeds(of, case):
    """Without seeds, two resumptions of a checkpoint are equal, and repeat the steps after it as they were before the kill."""
    training = of(case)
    directory, copy = training.new_directory(), training.new_directory()
    code, output = training.run(directory, **at("last", "trigger_step", 16), seeds=False)
    assert -signal.SIGKILL == code, output
    for name in ("log", "batches.txt"):
        (shutil.copytree if name == "log" else shutil.copy)(str(directory / name), str(copy / name))
    for one in (directory, copy):
        training.finish(one, seeds=False)
    assert results(directory) == results(copy)
    found = lines(directory)
    assert len(found) > len(set(found)) == len({tuple(line.split()[:2]) for line in found})
    assert not set(found) & training.control()["batches"]


@each_case(pytest.mark.proof)
def test_other_ends(of, case):
    """StopTraining, Ctrl-C, SIGTERM, a full disk and a smaller max_epoch do not change the result."""
    training = of(case)
    directory = training.new_directory()
    ends = [
        ("STOP", 13, [0]),
        ("SIGINT", 16, [INTERRUPTED]),
        ("SIGTERM", 21, [TERMINATED]),
        ("GROUP", 33, [TERMINATED]),
        ("DISK", 38, [1]),
    ]
    for how, step, codes in ends:
        code, output = training.run(directory, at=["last", "trigger_step", step, how])
        assert code in codes, (how, output)
    training.finish(directory, epochs=EPOCHS - 1)
    training.finish(directory)
    training.compare(directory)
