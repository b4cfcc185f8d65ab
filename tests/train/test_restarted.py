"""train/restarted.py: jobs that were started again where no checkpoint is."""

from __future__ import annotations

import socket

import pytest
from fakes.launching import launch

from tensorpack_lite.train.config import AutoResumeTrainConfig
from tensorpack_lite.train.restarted import find_restart

NAMES = ["SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "TENSORPACK_RANKS_RESTART"]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_variables(name):
    """A count above 0 says that the job was started again; anything else does not."""
    assert f"{name}=2" == find_restart({name: "2", "PATH": ""})
    assert [None] * 5 == [find_restart({name: text}) for text in ("", "0", "-1", "x", " ")]
    assert find_restart({}) is None


@pytest.mark.parametrize("name", NAMES)
def test_the_warning(monkeypatch, caplog, log_dir, name):
    """AutoResumeTrainConfig in a directory without a checkpoint names the variable, the directory, the machine and the page."""
    AutoResumeTrainConfig(steps_per_epoch=1)
    assert "started again" not in caplog.text
    monkeypatch.setenv(name, "1")
    AutoResumeTrainConfig(steps_per_epoch=1)
    told = f"started again ({name}=1), but {log_dir} on {socket.gethostname()} has no checkpoint"
    assert told in caplog.text
    assert "docs/several_machines.md" in caplog.text


def test_other_ranks_say_nothing(monkeypatch, caplog, log_dir):
    """Ranks that are not the chief need no checkpoint, so they log no warning."""
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    for name, value in (
        ("RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "1"),
    ):
        monkeypatch.setenv(name, value)
    AutoResumeTrainConfig(steps_per_epoch=1)
    assert "started again" not in caplog.text


@pytest.mark.slow
def test_the_launcher_counts_its_restarts(tmp_path):
    """`python -m tensorpack_lite.launch --restarts` tells the ranks how often they were started again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\nprint('restart', os.environ['TENSORPACK_RANKS_RESTART'])\nsys.exit(1)\n"
    )
    ended = launch(1, script, options=["--restarts", "1"])
    assert 1 == ended.code
    assert ["restart 0", "restart 1"] == [
        line.split("] ")[-1] for line in ended.out.splitlines() if "restart " in line
    ]
