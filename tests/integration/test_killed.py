"""A training that is killed and restarted ends with the files of an uninterrupted one."""

from __future__ import annotations

import json
import random
import shutil
import signal
from pathlib import Path

import pytest
from fakes.programs import program_runner
from fakes.resumed_script import CASES

from tensorpack_lite.utils.packed_state import unpack_state

pytestmark = pytest.mark.any_tensorflow

SCRIPT = Path(__file__).resolve().parents[1] / "fakes" / "resumed_script.py"
EPOCHS = 7


@pytest.fixture(scope="module")
def runner():
    with program_runner() as started:
        yield started


@pytest.fixture(scope="module")
def train(runner, tmp_path_factory):
    """Start the script in a directory and return whether it completed."""

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


def content_of(path):
    """Return the bytes of a file; of a state, and the state at the end of an epoch, all but a time."""
    if path.suffix not in (".state", ".end"):
        return path.read_bytes()
    state = unpack_state(path.read_bytes(), str(path)).state
    state.pop("checkpoint", None)  # in `.end`: a checksum of the state file, which has the time
    remove_time(state)
    return state


def remove_time(saved):
    """Remove the time until ModelSaver keeps a checkpoint, wherever it is."""
    saved.pop("seconds_left", None)
    for inner in saved.values():
        if isinstance(inner, dict):
            remove_time(inner)


def results(directory):
    """Return the rows, the last checkpoint with its place, the best checkpoint and the names of all files."""
    log = directory / "log"
    last = max((p.stem for p in log.glob("model-*.index")), key=lambda name: int(name.split("-")[1]))
    names = [
        "stats.json",
        "stats.csv",
        *sorted(p.name for p in log.iterdir() if p.stem == last or p.name[:4] in ("min-", "top-")),
    ]
    content = {name: content_of(log / name) for name in names}
    copies = ("graph-", "events", "stats.", "log.lo")  # which a restart keeps
    older = {p.stem for p in log.glob("model-*.index")} - {last}  # a kill before the oldest is deleted leaves it whole
    files = [p for p in log.iterdir() if p.stem not in older]
    content["files"] = sorted(p.name for p in files if ".tmp" in p.name or p.name[:6] not in copies)
    content["checkpoint"] = [line for line in (log / "checkpoint").read_text().splitlines() if "time" not in line]
    return content


@pytest.mark.parametrize(
    ("case", "epochs", "stride"),
    [
        pytest.param("every epoch", 2, 3, marks=pytest.mark.slow),
        *[pytest.param(case, 4, 1, marks=pytest.mark.proof) for case in CASES],
    ],
)
def test_each_change_to_a_file(train, undisturbed, tmp_path, case, epochs, stride):
    """Each process is killed before a later change to a file than the previous one. The last process is not killed."""
    kills = 0
    while not train(tmp_path, case, epochs, kill_at=1 + stride * kills):
        kills += 1
        assert kills < 200
    assert kills > 15 // stride
    assert undisturbed(case, epochs) == results(tmp_path)


def kill_at_random(train, undisturbed, directory, case, seed, kills):
    """Kill a training repeatedly until it completes or the limit is reached. Return the number of kills."""
    seconds = random.Random(seed)
    done = 0
    while done < kills and not train(directory, case, EPOCHS, kill_after=round(seconds.uniform(0.02, 0.25), 3)):
        done += 1
    assert train(directory, case, EPOCHS)
    assert undisturbed(case, EPOCHS) == results(directory), f"seed {seed}"
    return done


@pytest.mark.slow
def test_random_kills(train, undisturbed, tmp_path):
    """SIGKILL at random times, inside steps, callbacks and writes, does not change the result."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    kill_at_random(train, undisturbed, tmp_path, "inside epochs", seed, kills=3)


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_thirty_random_kills(train, undisturbed, tmp_path_factory, case):
    """The same holds for 30 kills with every schedule of checkpoints and rows."""
    kills = 0
    while kills < 30:
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        directory = tmp_path_factory.mktemp("killed")
        kills += kill_at_random(train, undisturbed, directory, case, seed, kills=30 - kills)
