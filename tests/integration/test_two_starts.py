"""Two training runs that start in one directory, as real processes."""

from __future__ import annotations

import os
import subprocess
import textwrap

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]


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
