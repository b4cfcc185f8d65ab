"""Randomly damaged files of every format, read in separate processes, because a crash ends the process."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fakes.damaged_files import FORMATS, NEEDS

TESTS = Path(__file__).parent.parent
DEADLOCK_GUARD_SECONDS = 1200  # the program also limits the time for each copy


def is_readable(name):
    """Return whether the package for a format is installed and is not known to crash."""
    needed = NEEDS.get(name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        return False
    if name == "hdf5":
        import h5py

        # HDF5 1.10.4 crashes for one of 1500 copies (seed 262), as docs/datasets.md says
        return h5py.version.hdf5_version_tuple >= (1, 12)
    return True


READABLE = [name for name in FORMATS if is_readable(name)]


def run(first, last, *names):
    """Read damaged copies in another process and return its exit code and its lines."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, str(TESTS / "fakes" / "damaged_files.py"), str(first), str(last), *names]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        timeout=DEADLOCK_GUARD_SECONDS,
    )
    lines = done.stdout.decode("utf-8").splitlines()
    if not lines:
        pytest.fail(f"the program did not start: {done.stderr.decode('utf-8')}")
    return done.returncode, lines


def require_one_error(code, lines):
    """Fail if the process crashed or a copy raised another error than DamagedFileError. Return the results."""
    assert 0 == code, f"the process ended by {code} after: {lines[-1]}"
    ends = [line for line in lines if line.startswith("end ")]
    results = Counter(line.rsplit(": ", 1)[1] for line in ends)
    assert {"noticed", "unnoticed"} >= set(results), [
        line for line in ends if not line.endswith((": noticed", ": unnoticed"))
    ]
    return results


@pytest.mark.slow
@pytest.mark.parametrize("with_tensorflow", [False, True])
def test_some_damage_of_each_format(with_tensorflow):
    """Twenty damaged copies of each format crash no process and raise only DamagedFileError."""
    names = [name for name in READABLE if (NEEDS.get(name) == "tensorflow") is with_tensorflow]
    if not names:
        pytest.skip("needs TensorFlow")
    code, lines = run(0, 20, *names)
    results = require_one_error(code, lines)
    assert 20 * len(names) == sum(results.values())


@pytest.mark.proof
@pytest.mark.parametrize("name", READABLE)
def test_much_damage_of_each_format(name):
    """500 damaged copies of a format crash no process and raise only DamagedFileError."""
    code, lines = run(0, 500, name)
    results = require_one_error(code, lines)
    print(f"\n| {name} | seeds 0 to 499 | {results['noticed']} noticed | {results['unnoticed']} unnoticed |")
    assert 500 == sum(results.values())
