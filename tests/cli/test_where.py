"""cli/where.py: errors. For training that runs, see tests/integration/test_hangs.py."""

from __future__ import annotations

import json
import os

import pytest

from tensorpack_lite.cli.main import main
from tensorpack_lite.utils.training_lock import TrainingLock


@pytest.fixture
def held(tmp_path):
    """A directory whose lock this process holds."""
    lock = TrainingLock(str(tmp_path), print)
    lock.acquire(0)
    yield tmp_path
    lock.release()


def test_the_process_of_a_directory(held):
    """The lock names the process that trains in a directory on this machine."""
    assert os.getpid() == TrainingLock.holding_process(str(held))
    path = held / TrainingLock.FILENAME
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "machine": "another one"}))
    assert TrainingLock.holding_process(str(held)) is None
    path.write_text(json.dumps({**content, "started": "long ago"}))
    assert TrainingLock.holding_process(str(held)) is None
    path.write_text(json.dumps(content))


def test_not_in_a_loop(held, capsys):
    """A process that is not in the loop of a training is an error, by its directory and by its id."""
    for training in (str(held), str(os.getpid())):
        assert 2 == main(["where", training])
        assert f"process {os.getpid()} is not in the loop of a training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("training", "message"),
    [("", "no training runs in"), ("nowhere", "neither a directory nor a process id")],
)
def test_no_training(tmp_path, capsys, training, message):
    """A directory without a training, and a directory that does not exist, are errors."""
    assert 2 == main(["where", str(tmp_path / training)])
    assert message in capsys.readouterr().err
