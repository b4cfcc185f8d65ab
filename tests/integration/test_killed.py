"""A training that is killed and started again ends with the files of one that nobody interrupted."""

from __future__ import annotations

import json
import random
import shutil
import signal
from pathlib import Path

import pytest
from fakes.programs import program_runner
from fakes.resumed_script import CASES

SCRIPT = Path(__file__).resolve().parents[1] / "fakes" / "resumed_script.py"
EPOCHS = 7


@pytest.fixture(scope="module")
def runner():
    with program_runner() as started:
        yield started


@pytest.fixture(scope="module")
def train(runner, tmp_path_factory):
    """Start the script in a directory; returns whether it came to its end."""

    def train(directory, case, epochs, **how):
        shutil.copy(str(SCRIPT), str(directory / "script.py"))
        (directory / "resumed.json").write_text(json.dumps({"case": case, "epochs": epochs, **how}))
        status, output = runner.run_to_any_end(directory, "script.py")
        assert status in (0, signal.SIGKILL), output
        return status == 0

    return train


@pytest.fixture(scope="module")
def undisturbed(train, tmp_path_factory):
    """The results of each case without a kill."""
    found = {}

    def undisturbed(case, epochs):
        if (case, epochs) not in found:
            directory = tmp_path_factory.mktemp("undisturbed")
            assert train(directory, case, epochs)
            found[case, epochs] = results(directory)
        return found[case, epochs]

    return undisturbed


def results(directory):
    """The content of what a training leaves: rows, the last checkpoint with its place, the best one; and which files there are."""
    log = directory / "log"
    last = max((p.stem for p in log.glob("model-*.index")), key=lambda name: int(name.split("-")[1]))
    names = [
        "stats.json",
        "stats.csv",
        *sorted(p.name for p in log.iterdir() if p.stem == last or p.name[:4] == "min-"),
    ]
    content = {name: (log / name).read_bytes() for name in names}
    content["checkpoint"] = [
        line for line in (log / "checkpoint").read_text().splitlines() if "time" not in line
    ]
    return content


@pytest.mark.parametrize(
    ("case", "epochs", "stride"),
    [
        pytest.param("every epoch", 2, 3, marks=pytest.mark.slow),
        *[pytest.param(case, 4, 1, marks=pytest.mark.proof) for case in CASES],
    ],
)
def test_each_change_to_a_file(train, undisturbed, tmp_path, case, epochs, stride):
    """Each process is killed before a later change to a file than the one before; the last one is not killed."""
    kills = 0
    while not train(tmp_path, case, epochs, kill_at=1 + stride * kills):
        kills += 1
        assert kills < 200
    assert kills > 15 // stride
    assert undisturbed(case, epochs) == results(tmp_path)


def kill_at_random(train, undisturbed, directory, case, seed, kills):
    """Kill a training again and again until it has been killed that often or is done; returns the number of kills."""
    seconds = random.Random(seed)
    done = 0
    while done < kills and not train(
        directory, case, EPOCHS, kill_after=round(seconds.uniform(0.02, 0.25), 3)
    ):
        done += 1
    assert train(directory, case, EPOCHS)
    assert undisturbed(case, EPOCHS) == results(directory), f"seed {seed}"
    return done


@pytest.mark.slow
def test_random_kills(train, undisturbed, tmp_path):
    """SIGKILL at random times, inside steps, callbacks and writes, changes nothing in the result."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    kill_at_random(train, undisturbed, tmp_path, "inside epochs", seed, kills=3)


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_thirty_random_kills(train, undisturbed, tmp_path_factory, case):
    """The same holds for 30 kills, whatever the schedule of checkpoints and rows."""
    kills = 0
    while kills < 30:
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        directory = tmp_path_factory.mktemp("killed")
        kills += kill_at_random(train, undisturbed, directory, case, seed, kills=30 - kills)
