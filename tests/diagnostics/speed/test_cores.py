"""Tests for the cores that a process may use."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tensorpack_lite.diagnostics.speed.cores import CpuTimes, cpu_times
from tensorpack_lite.utils import cores
from tensorpack_lite.utils.cores import usable_cores


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, float("inf")),
        ({"cpu.max": "max 100000"}, float("inf")),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ],
)
def test_the_quota_of_the_cgroup(tmp_path, files, expected):
    """The quota of the cgroup is read in both versions; without one, there is no limit."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="ascii")
    assert expected == cores._quota(str(tmp_path))


def test_the_affinity_limits(monkeypatch):
    """A process may use the cores of its affinity, or less by the quota."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3, 5}, raising=False)
    monkeypatch.setattr(cores, "_quota", lambda: 2.5)
    assert 2.5 == usable_cores()
    monkeypatch.setattr(cores, "_quota", lambda: float("inf"))
    assert 3 == usable_cores()


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (CpuTimes(10.0, 1.0, 9.0), False),
        (CpuTimes(10.0, 4.0, 9.0), True),
        (CpuTimes(10.0, 4.0, 0.5), False),  # its own threads compete
        (CpuTimes(0.5, 0.4, 9.0), False),  # little of both
    ],
)
def test_contention(times, expected):
    """Other programs count if threads often wait for a core."""
    assert expected == times.is_contended(10.0)


def test_times_grow():
    """The CPU time of this process is counted, and differences are never negative."""
    before = cpu_times()
    while cpu_times().used <= before.used:
        sum(range(10000))
    assert (cpu_times() - before).used > 0
    assert CpuTimes(3.0, 5.0, 9.0) == CpuTimes(1.0, 2.0, 4.0).plus(CpuTimes(2.0, 3.0, 5.0))
    assert CpuTimes(0.0, 0.5, 1.0) == CpuTimes(1.0, 1.0, 2.0) - CpuTimes(2.0, 0.5, 1.0)


def test_other_programs():
    """The CPU time of a program that this process has not started counts as that of others."""
    before = cpu_times()
    # a grandchild whose parent has ended
    script = "import time\nwhile time.process_time() < 0.6: pass"
    starter = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {script!r}])"
    subprocess.run([sys.executable, "-S", "-c", starter], check=True)
    deadline = time.monotonic() + 60
    while (cpu_times() - before).others < 0.4:
        assert time.monotonic() < deadline
        time.sleep(0.1)
