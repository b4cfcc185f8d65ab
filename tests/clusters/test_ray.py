"""Training in the workers of Ray Train."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fakes.engines import assert_equal_trainings, rank_environment
from fakes.launching import TESTS
from fakes.patience import PATIENCE

PATIENT = {
    # on a busy machine
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_health_check_timeout_ms": "600000",
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    "RAY_gcs_server_request_timeout_seconds": "600",
    "RAY_TMPDIR": "/tmp",  # else Ray may write to the working directory
}

pytest.importorskip("ray", reason="tox -e clusters installs Ray")


@pytest.mark.parametrize("size", [2, 3])
def test_ray_equals_the_launcher(launched, tmp_path, size):
    """Ranks in Ray's workers end with the checkpoint of the local launcher, and say that no signal is handled in a thread."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        TESTS / "fakes" / "ray_ranks.py",
        size,
        "collective",
        tmp_path,
        "own",
    ]
    ended = subprocess.run(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        env=rank_environment(RAY_DEDUP_LOGS="0", **PATIENT),
    )
    assert 0 == ended.returncode, ended.stdout
    assert "SIGTERM is not handled, because train() runs in the thread" in ended.stdout
    assert_equal_trainings(launched(size), tmp_path, size)


def test_the_example(tmp_path):
    """examples/distributed/ray_train.py trains digits.py on two workers."""
    example = TESTS.parent / "examples" / "distributed" / "ray_train.py"
    steps = ["--", "--steps-per-epoch", "2", "--max-epoch", "1", "--log-dir", tmp_path / "log"]
    ended = subprocess.run(
        list(map(str, [sys.executable, "-W", "ignore", example, "--workers", 2, *steps])),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        cwd=str(tmp_path),
        env=rank_environment(**PATIENT),
    )
    assert 0 == ended.returncode, ended.stdout
    assert (tmp_path / "log" / "report.html").exists()
