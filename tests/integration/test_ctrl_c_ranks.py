"""Ctrl-C at the launcher of a training with several ranks: what is saved, what is printed, and the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from fakes.launching import CASES, start_command

pytestmark = [pytest.mark.slow, pytest.mark.any_tensorflow]


@pytest.fixture
def press(tmp_path):
    """Start two ranks, send SIGINT to the launcher when both are ready, and return its exit code and output."""
    started = []

    def press(*arguments):
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tensorpack_lite.launch",
            "-n",
            2,
            CASES,
            "ctrl_c",
            *arguments,
        ]
        process = start_command(command, stderr=subprocess.STDOUT, cwd=tmp_path)
        started.append(process)
        lines = []
        for line in process.stdout:
            lines.append(line)
            if sum("READY" in one for one in lines) == 2:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=200)
        return process.returncode, "".join(lines) + rest

    yield press
    for process in started:
        process.kill()
        process.wait()


def steps(tmp_path):
    names = os.listdir(str(tmp_path / "log"))
    return sorted(int(name[6:-6]) for name in names if name.startswith("model-") and name.endswith(".index"))


def last_lines(output):
    return [[line for line in output.splitlines() if line.startswith(f"[{rank}]")][-1] for rank in range(2)]


def test_a_checkpoint_is_saved(press, tmp_path):
    """With exact and a ModelSaver, all ranks end after the same step, whose checkpoint is saved, and each prints one line."""
    code, output = press("step", "exact")
    assert 130 == code, output
    assert [f"[{rank}] KeyboardInterrupt: Training was ended by Ctrl-C." for rank in range(2)] == last_lines(output)
    assert f"It ends at global_step={steps(tmp_path)[-1]} with exit code 130." in output
    assert 13 < steps(tmp_path)[-1]
    assert 2 == output.count("AFTER_TRAIN"), output
    assert "Traceback" not in output, output
    assert "RETURNED" not in output


@pytest.mark.parametrize("moment", ["graph", "setup", "step"])
def test_nothing_is_saved(press, tmp_path, moment):
    """Before the first step, and without exact, the ranks end at once, without tracebacks of the library."""
    code, output = press(moment, "plain" if moment == "step" else "exact")
    assert 130 == code, output
    assert "launch: ended by SIGINT" in output
    assert "RETURNED" not in output
    assert any("KeyboardInterrupt: " in line for line in last_lines(output)), output
    assert output.count("Traceback") <= 1, output  # of a rank that heard of the other's end before
