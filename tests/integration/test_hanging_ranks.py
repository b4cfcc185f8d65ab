"""Two ranks of which one hangs: the chief's log shows where each rank is. `fakes/ranks_script.py` has the training runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from fakes.launching import CASES, launch, start, wait
from fakes.processes import python_environment

from tensorpack_lite.utils.notes import read_notes

pytestmark = pytest.mark.slow

READ = r"read_and_crop, on its datapoint 38 \('/data/037.jpg'\), at hanging_script.py:\d+ read_and_crop: time.sleep"
WORKER = r"worker 0 \(pid \d+\) has worked for [\d.]+ s( \(usually [\d.]+ ms\))?, in " + READ


def log_of_chief(directory):
    return (directory / "0" / "log.log").read_text()


def hang(directory, case, time_limit="6", watch_limit="1000", on_hang="report"):
    """Train until the ranks end; return the exit code, the chief's log and the output of both."""
    ended = launch(2, CASES, "hanging", directory, case, time_limit, watch_limit, on_hang)
    return ended.code, log_of_chief(directory), ended.out + ended.err


@pytest.mark.any_tensorflow
def test_data_of_another_rank(tmp_path):
    """When the hub ends a training, the chief's log says what each rank waits for, down to the datapoint of a worker."""
    code, log, _ = hang(tmp_path, "map")
    assert 128 == code
    told = log[log.index("The ranks say:") :]
    assert re.search(r"No rank has finished step \d+ within 6 s", log)
    assert re.search(r"Rank 0: It has been there for \d+ s. Step \d+ .* or waits for another rank", told)
    assert re.search(r"Rank 1: It has been there for \d+ s. Step \d+ .* waits for data: QueueInput is empty", told)
    assert re.search(WORKER, told)
    (note,) = [note for note in read_notes(str(tmp_path / "0")) if note["kind"] == "hang"]
    assert re.search(WORKER, note["text"])


@pytest.mark.any_tensorflow
def test_a_rank_that_is_stopped(tmp_path):
    """The chief's log shows where a rank that does not answer was last seen."""
    code, log, _ = hang(tmp_path, "stop", time_limit="6")
    assert 128 == code
    assert "Rank 1 has been silent for 6 s, last seen after step 20" in log
    assert re.search(r"Rank 1: It does not answer, last seen after step 20, in callback Stops, _trigger_step", log)


@pytest.mark.any_tensorflow
def test_a_rank_in_a_gather(tmp_path):
    """A rank that waits for a value of the others names the value."""
    code, log, _ = hang(tmp_path, "ahead", time_limit="4")
    assert 128 == code
    told = log[log.index("The ranks say:") :]
    assert re.search(r"Rank 0: .* Gathers \(trigger_step, after step 20\) does not end: .* time.sleep\(FOREVER\)", told)
    assert "Rank 1: It waits for the other ranks (the planted values)." in told


@pytest.mark.any_tensorflow
def test_watch_with_ranks(tmp_path):
    """The chief's report of a hang contains what the other rank says; on_hang="abort" ends the job with code 143."""
    code, log, out = hang(tmp_path, "map", "60", "3", "abort")
    assert 143 == code, out
    both = log + (tmp_path / "1" / "log-rank1.log").read_text()
    assert re.search(r"Nothing has moved for \d+ s\. Step", both)
    assert re.search(WORKER, both)


@pytest.mark.any_tensorflow
def test_where_shows_all_ranks(tmp_path):
    """`tensorpack-lite where` with the chief's directory prints a paragraph for each rank."""
    process = start("-m", "tensorpack_lite.launch", "-n", 2, CASES, "hanging", tmp_path, "map", 100, 1000, "report")
    try:
        text = ""
        code = "import sys; from tensorpack_lite.cli.main import main; sys.exit(main())"
        deadline = time.monotonic() + 90
        while not re.search(WORKER, text) and time.monotonic() < deadline:
            time.sleep(0.5)
            command = [sys.executable, "-c", code, "where", str(tmp_path / "0")]
            done = subprocess.run(command, env=python_environment(), stdout=subprocess.PIPE, text=True)
            text = done.stdout
        assert re.search(WORKER, text[text.index("Rank 1: ") :]), text
        assert json.loads((tmp_path / "0" / "training.lock").read_text())["pid"] > 0
    finally:
        process.terminate()
        wait(process, 30)
