"""Training runs that are killed, and two training runs that start in one directory, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]

# where the process is killed -> the files it leaves
PLACES = {
    "stats.json.tmp": ["stats.json.tmp"],
    "stats.csv.tmp": ["stats.csv.tmp"],
    r"\.saving/model-": [".saving"],
    r"\.saving/model.*index": [".saving", "model-*.data-00000-of-00001", "model-*.state"],
    r"\.checkpoint\.tmp": [".checkpoint.tmp"],
    "meta graph": ["graph-*.meta.tmp*"],
    r"\.saving/min-.*index": [".saving", "min-cost.data-00000-of-00001", "min-cost.state"],
    r"\.saving/min-cost\.json": [".saving"],
    "making a copy": ["top-cost-*.data-00000-of-00001", "top-cost-*.index", "top-cost-*.state"],
    "removing a copy": ["top-cost-*.data-00000-of-00001"],
}

TWO_STARTS = """
    import sys
    from fakes.trainers import CountingTrainer, run
    from tensorpack_lite.callbacks.saver import ModelSaver
    from tensorpack_lite.compat import tfv1 as tf
    from tensorpack_lite.loop.callback_factory import CallbackFactory
    from tensorpack_lite.train.config import AutoResumeTrainConfig
    from tensorpack_lite.utils import logger

    directory, wait, waits_in_training = sys.argv[1:]

    def trigger(self):
        if waits_in_training == "yes":
            print("TRAINING", flush=True)
            sys.stdin.read()

    logger.set_logger_dir(directory, action="k")
    logger.lock_dir(float(wait))
    config = AutoResumeTrainConfig(steps_per_epoch=1)
    print("RESUMES", config.session_init is not None and hasattr(config.session_init, "path"), flush=True)
    run(CountingTrainer(), [ModelSaver(), CallbackFactory(trigger=trigger)], [], 1, 1, 1, config.session_init)
"""


def read_until(process, text):
    """Return the output of a process up to the line with a text."""
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"ended without '{text}': {seen}")


def test_leftovers_are_removed_at_the_next_start(start_python, tmp_path):
    """Each start removes the leftovers of the killed one before it, and a complete run leaves none."""
    places = [*PLACES, "nowhere"]
    script = os.path.join(os.path.dirname(os.path.dirname(__file__)), "fakes", "killed_script.py")
    output = start_python(script, tmp_path, *places, stderr=subprocess.STDOUT).communicate()[0]
    results = [json.loads(line[len("RESULT ") :]) for line in output.splitlines() if line.startswith("RESULT ")]
    assert len(places) == len(results), output

    for place, left, status in results[:-1]:
        assert 9 == status, place
        assert len(PLACES[place]) == len(left), (place, left)
        for pattern, name in zip(PLACES[place], left):
            begin, end = pattern.split("*")[0], pattern.split("*")[-1]
            assert name.startswith(begin), (place, left)
            assert name.endswith(end), (place, left)
    assert ["nowhere", [], 0] == results[-1]
    starts = [line for line in (tmp_path / "log.log").read_text().splitlines() if " Argv: " in line]
    assert len(places) == len(starts)


@pytest.mark.nightly
def test_two_starts_in_one_directory(start_python, tmp_path):
    """A second training raises an error that names the first one, or waits until the first one ends and resumes it."""

    def start(*args):
        return start_python("-c", textwrap.dedent(TWO_STARTS), tmp_path, *args, stderr=subprocess.STDOUT)

    first = start(0, "yes")
    assert "RESUMES False" in read_until(first, "TRAINING")
    refused = start(0, "no")
    waiting = start(300, "no")

    sentence = f"a training is running in '{tmp_path}' (process {first.pid} on "
    output = refused.communicate()[0]
    assert 1 == refused.returncode
    assert f"OSError: TrainingLock: {sentence}" in output

    assert "RESUMES" not in read_until(waiting, f"Waiting up to 300 s: {sentence}")
    first.kill()
    output = waiting.communicate()[0]
    assert 0 == waiting.returncode
    assert "RESUMES True" in output
    assert "training.lock" not in os.listdir(str(tmp_path))
